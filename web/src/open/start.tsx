// From a text to a training: drop it, see what was read, say how long it may take, begin.
import { useEffect, useRef, useState } from "preact/hooks";
import { say } from "../strings";
import { asked, Refused } from "./api";
import { Jobs, start } from "./jobs";
import { Command, Trouble } from "./pieces";
import { go, put, useRoute } from "./route";
import { typed } from "./shell";
import { things, useThings, type About, type Text } from "./things";
import { chosen, dropped, MOST_FILE, MOST_FILES, MOST_TOGETHER, nameOf, send, type Dropped, type Sending } from "./upload";
import { bytesOf, count, minutesOf, useWords } from "./words";

/** Minutes that can be chosen. */
export const STOPS = [0.5, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720];
const SHOWN = ["sampling.every=0.1", "training.keep_for_story=12"]; // as octavo/browser/acting.py has them
const FIRST = 5, REST = 450, LITTLE = 20_000;

interface Looked {
  documents: number; characters: number; bytes: number; words: number; distinct_words: number; duplicates: number; languages: Record<string, number>;
  frequent: [string, number][]; files: { name: string; bytes: number; documents: number }[]; file_count: number; begins: string; said: string[]; notes: string[];
}

interface Promise_ { minutes: number; bits: number; within: number; parameters: number; steps: number; counting: number; start: number; teachers: number; reasons: Record<string, string> }

export function Start() {
  const { s } = useWords(), them = useThings(), { at } = useRoute();
  const texts = them.all<Text>("text").sort((a, b) => b.added - a.added), id = at.get("text"), text = id === null ? undefined : them.get<Text>(`text:${id}`);
  const [sending, setSending] = useState<{ now: Sending | null; name: string; stop: AbortController } | null>(null);
  const [trouble, setTrouble] = useState<unknown>(null), [tooLarge, setTooLarge] = useState<Dropped | null>(null), [over, setOver] = useState(false);
  const take = async (files: Dropped[]) => {
    setTrouble(null);
    setTooLarge(null);
    const some = files.filter(({ file }) => file.size > 0);
    if (!some.length) return setTrouble(new Error(files.length ? say(s.emptyFile, { name: files[0].path }) : s.nothingDropped));
    if (some.length > MOST_FILES) return setTrouble(new Error(say(s.tooMany, { n: MOST_FILES })));
    const large = some.find(({ file }) => file.size > MOST_FILE);
    if (large) return setTooLarge(large);
    if (some.reduce((sum, { file }) => sum + file.size, 0) > MOST_TOGETHER) return setTooLarge(some.reduce((a, b) => (b.file.size > a.file.size ? b : a)));
    const stop = new AbortController();
    setSending({ now: null, name: nameOf(some), stop });
    try {
      const text = await send(some, (now) => setSending({ now, name: nameOf(some), stop }), stop.signal);
      put({ text, minutes: null, name: null });
    } catch (error) {
      setTrouble(error);
    }
    setSending(null);
  };
  const drop = useRef(take);
  drop.current = take;
  useEffect(() => {
    // Anywhere on the page: who misses the field by a little means it all the same.
    let inside = 0;
    const holds = (event: DragEvent) => event.dataTransfer?.types.includes("Files");
    const enter = (event: DragEvent) => holds(event) && (inside++, setOver(true));
    const leave = (event: DragEvent) => holds(event) && --inside <= 0 && setOver(false);
    const move = (event: DragEvent) => holds(event) && event.preventDefault();
    const fall = (event: DragEvent) => {
      if (!holds(event)) return;
      event.preventDefault();
      inside = 0;
      setOver(false);
      void dropped(event.dataTransfer!).then((files) => drop.current(files));
    };
    const all: [string, (event: DragEvent) => unknown][] = [["dragenter", enter], ["dragleave", leave], ["dragover", move], ["drop", fall]];
    for (const [name, each] of all) addEventListener(name, each as EventListener);
    return () => all.forEach(([name, each]) => removeEventListener(name, each as EventListener));
  }, []);
  const files = useRef<HTMLInputElement>(null), folder = useRef<HTMLInputElement>(null);
  return (
    <div class="oo-start">
      <div class="oo-lead"><h1>{s.startTitle}</h1><p>{s.startLead}</p></div>
      <Jobs kinds={["train", "more", "demo", "tune"]} />
      <section class={`oo-drop${over ? " oo-over" : ""}${text ? " oo-taken" : ""}`} id="oo-drop" aria-label={s.dropHere}>
        <svg viewBox="0 0 48 48" width="52" height="52" aria-hidden="true"><path d="M10 6h18l10 10v26H10z" fill="var(--paper)" stroke="currentColor" stroke-width="2" stroke-linejoin="round" /><path d="M28 6v10h10M17 24h14M17 30h14M17 36h9" fill="none" stroke="currentColor" stroke-width="2" /></svg>
        <h2>{s.dropHere}</h2>
        <div class="oo-actions">
          <button type="button" class="oo-primary" disabled={!!sending} onClick={() => files.current?.click()}>{s.chooseFiles}</button>
          <button type="button" disabled={!!sending} onClick={() => folder.current?.click()}>{s.chooseFolder}</button>
        </div>
        <input ref={files} type="file" multiple hidden aria-label={s.chooseFiles} id="oo-files" onChange={(event) => {
          void take(chosen(event.currentTarget.files));
          event.currentTarget.value = "";
        }} />
        <input ref={folder} type="file" hidden aria-label={s.chooseFolder} {...{ webkitdirectory: "" }} onChange={(event) => {
          void take(chosen(event.currentTarget.files));
          event.currentTarget.value = "";
        }} />
        <p class="oo-note">{s.dropKinds}</p>
        {sending && (
          <div class="oo-taking" role="status">
            <div class="oo-meter"><i style={{ width: `${sending.now ? (100 * sending.now.done) / Math.max(1, sending.now.all) : 0}%` }} /></div>
            <p>{say(s.taking, { name: sending.name, done: bytesOf(sending.now?.done ?? 0), all: bytesOf(sending.now?.all ?? 0) })}{sending.now && sending.now.of > 1 ? `, ${say(s.takingFiles, { n: sending.now.at, all: sending.now.of })}` : ""} <button type="button" onClick={() => sending.stop.abort()}>{s.cancel}</button></p>
          </div>
        )}
        {tooLarge && <div role="alert"><p class="oo-warning">{say(s.tooLarge, { name: tooLarge.path, size: bytesOf(tooLarge.file.size) })}</p><Command words={typed("octavo", "train", "--text", tooLarge.path, "--minutes", "5")} /></div>}
        <Trouble of={trouble} />
        {texts.length > 0 && (
          <div class="oo-texts"><h3>{s.earlier}</h3><ul>
            {texts.map((each) => <li key={each.id}><button type="button" aria-pressed={each.id === id} onClick={() => put({ text: each.id, minutes: null, name: null })}><b>{each.id}</b> <small>{each.files > 1 ? say(s.filesOf, { n: each.files, size: bytesOf(each.bytes) }) : say(s.fileOf, { size: bytesOf(each.bytes) })}</small></button></li>)}
          </ul></div>
        )}
        {!texts.length && !sending && <Demo />}
      </section>
      {text && !sending && <Chosen text={text} key={`${text.id} ${text.bytes}`} />}
      {texts.length > 0 && <Demo />}
    </div>
  );
}

function Demo() {
  const { s } = useWords(), [trouble, setTrouble] = useState<unknown>(null);
  return (
    <div class="oo-demo"><p>{s.noText} <button type="button" onClick={() => start({ kind: "demo" }).then(() => scrollTo({ top: 0 }), setTrouble)}>{s.demo}</button> <span class="oo-note">{s.demoNote}</span></p><Trouble of={trouble} /></div>
  );
}

function Chosen({ text }: { text: Text }) {
  const { s, language } = useWords(), [looked, setLooked] = useState<Looked | null>(null), [trouble, setTrouble] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    asked<Looked>("/api/look", { body: { text: text.id }, signal: stop.signal }).then(setLooked, setTrouble);
    return () => stop.abort();
  }, [text.id]);
  const named = (code: string) => {
    try {
      return new Intl.DisplayNames([language], { type: "language" }).of(code) ?? code;
    } catch {
      return code;
    }
  };
  if (trouble) return <section id="oo-read"><h2>{s.readTitle}</h2><Trouble of={trouble} /></section>;
  return (
    <>
      <section id="oo-read" aria-busy={!looked}>
        <h2>{s.readTitle}</h2>
        {!looked ? <p class="oo-note oo-busy" role="status">{s.reading}</p> : (
          <>
            <dl class="oo-facts">
              {([
                [s.size, bytesOf(looked.bytes)], [s.words, count(looked.words, language)], [s.differentWords, count(looked.distinct_words, language)],
                ...(looked.file_count > 1 ? [[s.files, count(looked.file_count, language)]] : []), [s.documents, count(looked.documents, language)],
                ...(Object.keys(looked.languages).length ? [[s.languages, Object.entries(looked.languages).sort((a, b) => b[1] - a[1]).slice(0, 4).map(([code, share]) => named(code) + (share < 0.995 ? ` ${Math.round(100 * share)} %` : "")).join(", ")]] : []),
                [s.mostFrequent, looked.frequent.slice(0, 7).map(([word]) => word).join(", ")],
              ] as [string, string][]).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
            </dl>
            {looked.bytes < LITTLE && <p class="oo-warning">{s.short}</p>}
            {[...looked.said, ...looked.notes].map((note) => <p class="oo-note" key={note}>{note.replace(`${things.get<About>("about")?.folder}/texts/${text.id}/`, "")}</p>)}
            <h3>{s.begins}</h3>
            <pre class="oo-text oo-small" tabIndex={0}>{looked.begins.replace(/\n{3,}/g, "\n\n")} …</pre>
          </>
        )}
      </section>
      {looked && <Minutes text={text} letters={looked.bytes / Math.max(1, looked.characters)} />}
    </>
  );
}

function Minutes({ text, letters }: { text: Text; letters: number }) {
  const { s, language } = useWords(), { at } = useRoute(), [known, setKnown] = useState<Map<number, Promise_>>(new Map());
  const [asking, setAsking] = useState(0), [trouble, setTrouble] = useState<unknown>(null), [failed, setFailed] = useState<unknown>(null), [busy, setBusy] = useState(false);
  const given = Number(at.get("minutes") ?? FIRST), place = Math.max(0, STOPS.indexOf(given)), minutes = STOPS[place];
  const most = useRef(0), name = at.get("name") ?? text.id.replace(/\.[^.]+$/, "");
  // One child process foretells all times up to the chosen one; a longer choice ends it and asks anew.
  useEffect(() => {
    if (minutes <= most.current) return;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      setAsking((n) => n + 1);
      try {
        for (;;) {
          try {
            const found = await asked<Promise_[]>("/api/foretell", { body: { text: text.id, minutes: STOPS.filter((each) => each <= minutes) }, signal: stop.signal });
            most.current = Math.max(most.current, minutes);
            setKnown((before) => new Map([...before, ...found.map((each): [number, Promise_] => [each.minutes, each])]));
            setTrouble(null);
            break;
          } catch (error) {
            if (!(error instanceof Refused && error.status === 429)) throw error;
            await new Promise((resolve) => setTimeout(resolve, 1500));
            if (stop.signal.aborted) break;
          }
        }
      } catch (error) {
        if (!stop.signal.aborted) setTrouble(error);
      }
      setAsking((n) => n - 1);
    }, known.size ? REST : 0);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [minutes, text.id]);
  const promise = known.get(minutes), hesitates = (bits: number) => +(2 ** (bits * letters)).toPrecision(2);
  const begin = async () => {
    setBusy(true);
    try {
      const job = await start({ kind: "train", text: text.id, minutes, name });
      setFailed(null);
      go("watch", { job: job.id });
    } catch (error) {
      setFailed(error);
    }
    setBusy(false);
  };
  const out = `${things.get<About>("about")?.runs ?? "runs"}/${name.trim().replace(/[^\p{L}\p{N}_.+-]+/gu, "-") || "model"}`;
  const words = typed("octavo", "train", "--text", text.path, "--minutes", String(minutes), "--out", out, ...SHOWN);
  return (
    <section id="oo-minutes" data-known={known.size}>
      <h2>{s.minutesTitle}</h2>
      <Foretold known={known} place={place} />
      <input type="range" min="0" max={STOPS.length - 1} step="1" value={place} aria-label={s.minutesLabel} aria-valuetext={minutesOf(minutes, s)} list="oo-stops" onInput={(event) => put({ minutes: String(STOPS[Number(event.currentTarget.value)]) })} />
      <div class="oo-scale" aria-hidden="true">{[0.5, 2, 5, 15, 60, 240, 720].map((each) => <span key={each} style={{ left: `${(100 * STOPS.indexOf(each)) / (STOPS.length - 1)}%` }}>{minutesOf(each, s)}</span>)}</div>
      <div class="oo-promise" aria-live="polite">
        <b>{minutesOf(minutes, s)}</b>
        {promise ? (
          <div>
            <p class="oo-headline">{say(s.promiseHeadline, { n: hesitates(promise.bits) })}</p>
            <p class="oo-note">{say(s.promiseNote, { bits: promise.bits.toFixed(2), within: promise.within.toFixed(2), start: hesitates(promise.start), counting: hesitates(promise.counting) })} {say(s.promiseModel, { parameters: count(promise.parameters, language) })}{promise.teachers > 0 ? ` ${say(s.promiseTeachers, { n: promise.teachers })}` : ""}</p>
          </div>
        ) : <p class={asking ? "oo-note oo-busy" : "oo-note"}>{asking ? s.promising : trouble ? "" : s.promiseNone}</p>}
      </div>
      <Trouble of={promise ? null : trouble} />
      {promise && (
        <details><summary>{s.why}</summary><dl class="oo-reasons">{Object.entries(promise.reasons).map(([key, why]) => <div key={key}><dt>{s.reasons[key] ?? key}</dt><dd>{why}</dd></div>)}</dl></details>
      )}
      <div class="oo-begin">
        <label>{s.nameLabel} <input type="text" maxLength={60} value={name} onInput={(event) => put({ name: event.currentTarget.value })} /></label>
        <button type="button" class="oo-primary oo-large" disabled={busy} onClick={begin}>{busy ? s.beginning : s.begin}</button>
      </div>
      <Trouble of={failed} />
      <Command words={words} />
    </section>
  );
}

/** What each time would bring: a curve with its interval, the chosen one marked. */
function Foretold({ known, place }: { known: Map<number, Promise_>; place: number }) {
  const { s } = useWords(), all = STOPS.map((each) => known.get(each));
  const some = all.filter((each): each is Promise_ => !!each);
  if (!some.length) return <div class="oo-foretold oo-empty-curve" aria-hidden="true" />;
  const before = some[0].start, high = Math.max(before, ...some.map((each) => each.bits + each.within)), low = Math.min( ...some.map((each) => each.bits - each.within));
  const x = (n: number) => (100 * n) / (STOPS.length - 1), y = (bits: number) => 8 + (84 * (high - bits)) / (high - low || 1);
  const points = all.flatMap((each, n) => (each ? [{ n, ...each }] : []));
  const line = points.map((each) => `${x(each.n)},${y(each.bits)}`).join(" ");
  const area = [...points.map((each) => `${x(each.n)},${y(each.bits + each.within)}`), ...points.reverse().map((each) => `${x(each.n)},${y(each.bits - each.within)}`)].join(" ");
  const here = all[place];
  return (
    <div class="oo-foretold" aria-hidden="true">
      <svg viewBox="0 0 100 100" preserveAspectRatio="none">
        <line x1="0" x2="100" y1={y(before)} y2={y(before)} class="oo-counting" />
        <polygon points={area} class="oo-within" />
        <polyline points={line} class="oo-line" />
        <line x1={x(place)} x2={x(place)} y1="0" y2="100" class="oo-here" />
      </svg>
      <span class="oo-label" style={{ top: `${y(before)}%` }}>{s.before}</span>
      {here && <i class="oo-dot" style={{ left: `${x(place)}%`, top: `${y(here.bits)}%` }} />}
      <span class="oo-better">↓ {s.better}</span>
    </div>
  );
}
