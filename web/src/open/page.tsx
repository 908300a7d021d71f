// The frame around the views: where one is, whether the server is there, and the language.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { say } from "../strings";
import { Play } from "./play";
import { address, put, useRoute, VIEWS, type View } from "./route";
import { runsOf, useThings, type About } from "./things";
import { Away } from "./away";
import { Inside } from "./inside";
import { Lessons } from "./lessons";
import { shortName, TimeLeft } from "./pieces";
import { Start } from "./start";
import { Watch } from "./watch";
import { firstLanguage, keepLanguage, stringsOf, useWords, Words, type Language } from "./words";

const ROOMS: Record<View, () => preact.JSX.Element> = { start: Start, watch: Watch, play: Play, inside: Inside, away: Away };

export function Page() {
  const [language, set] = useState<Language>(firstLanguage), [theme, setTheme] = useState(0), s = stringsOf(language);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)"), again = () => setTheme((n) => n + 1);
    dark.addEventListener("change", again);
    return () => dark.removeEventListener("change", again);
  }, []);
  const setLanguage = (chosen: Language) => {
    keepLanguage(chosen);
    set(chosen);
  };
  return (
    <Words.Provider value={{ s, language, theme, setLanguage }}>
      <Caught>
        <Frame />
      </Caught>
    </Words.Provider>
  );
}

function Frame() {
  const { s, language, setLanguage } = useWords(), { view, at } = useRoute(), them = useThings();
  const about = them.get<About>("about"), here = them.connection === "here", Room = ROOMS[view];
  const running = runsOf(them).filter((run) => run.held);
  useEffect(() => {
    document.title = `${s.views[view]} · ${s.title}`;
  }, [view, s]);
  return (
    <div class="oo" data-view={view} data-connection={them.connection} data-ready={about ? "yes" : "no"}>
      <a class="oo-skip" href="#content" onClick={(event) => {
        event.preventDefault();
        document.getElementById("content")?.focus();
      }}>{s.skip}</a>
      <header class="oo-top">
        <a class="oo-name" href={address("start")}><Mark /><span>{s.title}</span></a>
        <nav aria-label={s.navigation}>
          {VIEWS.map((each) => <a key={each} href={address(each)} aria-current={each === view ? "page" : undefined}>{s.views[each]}</a>)}
        </nav>
        <div class="oo-now">
          {running.slice(0, 2).map((run) => <a key={run.id} class="oo-pill" href={address("watch", { run: run.id, focus: run.id })}><i /><span>{shortName(run.id)}</span> <em><TimeLeft run={run} /></em></a>)}
          <button type="button" class="oo-plain" aria-pressed={at.has("lesson")} onClick={() => put({ lesson: at.has("lesson") ? null : String(1 + s.lessonStops.findIndex(([, , where]) => where === view)) })}>{s.lessons}</button>
          <button type="button" class="oo-plain" lang={language === "de" ? "en" : "de"} title={s.languageLabel} onClick={() => setLanguage(language === "de" ? "en" : "de")}>{s.language}</button>
        </div>
      </header>
      {!here && <p class="oo-banner" role="alert">{them.connection === "waiting" ? s.waiting : them.connection === "refused" ? s.refused : s.gone}</p>}
      {here && about?.cut && <p class="oo-banner">{s.cut}</p>}
      <main id="content" tabIndex={-1}>{about && <Room />}</main>
      {about && <Lessons />}
      <footer>{about && <>{say(s.folder, { folder: about.folder })} · Octavo {about.version}</>}</footer>
    </div>
  );
}

/** A folded sheet: what an octavo is. */
function Mark() {
  return (
    <svg class="oo-mark" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
      <path d="M4 4.5 12 7l8-2.5v14L12 21l-8-2.5z" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" />
      <path d="M12 7v14M4 11.5 12 14l8-2.5" fill="none" stroke="currentColor" stroke-width="1.6" />
    </svg>
  );
}

class Caught extends Component<{ children: ComponentChildren }, { why: string | null }> {
  state = { why: null as string | null };
  static contextType = Words;
  componentDidCatch(error: Error): void {
    this.setState({ why: String(error?.message ?? error) });
  }
  render() {
    const { s } = this.context as { s: ReturnType<typeof stringsOf> };
    return this.state.why === null ? this.props.children : <p class="oo-banner" role="alert">{say(s.failed, { why: this.state.why })}</p>;
  }
}
