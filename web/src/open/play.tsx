// Playing with a model, or with two side by side: go on with a text, talk, translate, forecast.
import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { percent } from "../format";
import type { Sampling } from "../sampling";
import { say } from "../strings";
import { asked, Refused } from "./api";
import { Chat } from "./chat";
import { Forecast } from "./forecast";
import { Judged } from "./judged";
import { NextPanel, visible } from "./next";
import { shortName, Thumb, Trouble } from "./pieces";
import { address, put, useRoute } from "./route";
import { runsOf, useThings, type Run } from "./things";
import { Translation } from "./translation";
import { useWords } from "./words";
import { answerOf, newSeed, rootOf, spelled, textOf, unspelled, whole, Writer, type Branch, type Token } from "./writer";

export interface Model {
  name: string; run: Run; task: string; step: number; writes: boolean; chats: boolean; counts: boolean; context: number; vocabulary: number | null; parameters: number;
  sampling: Sampling; prompts: string[]; notice: string | null;
}

const LENGTHS = [50, 100, 200, 400, 800], LENGTH = 200, TINT = 5, REST = 300;

/** What is known of a model once it is loaded. */
function useModel(name: string | null, run: Run | undefined): { model: Model | null; trouble: unknown } {
  const [model, setModel] = useState<Model | null>(null), [trouble, setTrouble] = useState<unknown>(null);
  const which = name && run ? name : null;
  useEffect(() => {
    setModel(null);
    setTrouble(null);
    if (!which) return;
    const stop = new AbortController();
    const load = async () => {
      for (;;) {
        try {
          const found = await asked<Omit<Model, "name" | "run">>("/api/model", { body: { model: which }, signal: stop.signal });
          return setModel({ ...found, name: which, run: run! });
        } catch (error) {
          if (stop.signal.aborted) return;
          if (!(error instanceof TypeError || (error instanceof Refused && error.status === 0))) return setTrouble(error);
          setTrouble(error); // the server is away: try again until it is there
          await new Promise((resolve) => setTimeout(resolve, 2000));
          setTrouble(null);
        }
      }
    };
    void load();
    return () => stop.abort();
  }, [which]);
  return { model, trouble };
}

export function Play() {
  const { s } = useWords(), them = useThings(), { at } = useRoute();
  const able = runsOf(them).filter((run) => run.checkpoints.length > 0);
  const chosen = at.get("run") ?? able.find((run) => !run.study)?.id ?? able[0]?.id ?? null, run = able.find((each) => each.id === chosen);
  const other = at.get("other"), second = able.find((each) => each.id === other);
  const name = chosen && nameWith(chosen, at.get("step")), otherName = other && nameWith(other, at.get("otherstep"));
  const first = useModel(name, run), beside = useModel(otherName, second);
  if (!able.length && !chosen)
    return <section class="oo-empty"><h1>{s.playTitle}</h1><p>{s.playNone}</p><p><a class="oo-button oo-primary" href={address("start")}>{s.startOne}</a></p></section>;
  const model = first.model, mode = at.get("mode") === "chat" && model?.chats ? "chat" : "write";
  const fresh = { b: null, p: null, w: null, v: null, on: null, von: null, token: null, vtoken: null };
  return (
    <div class="oo-play">
      <div class="oo-lead"><h1>{s.playTitle}</h1>{(!model || model.writes) && <p>{s.playLead}</p>}</div>
      <div class="oo-pick" id="oo-pick">
        <Picker label={s.model} runs={able} run={chosen} step={at.get("step")} pick={(run, step) => put({ run, step, ...(run !== chosen ? fresh : { w: null, on: null, token: null }) })} />
        {model?.writes && <Picker label={s.beside} none={s.besideNone} runs={able} run={other} step={at.get("otherstep")} pick={(run, step) => put({ other: run, otherstep: step, v: null, von: null, vtoken: null })} />}
        {model?.chats && (
          <div class="oo-modes" role="group" aria-label={s.modeLabel}>
            {(["write", "chat"] as const).map((each) => <button type="button" key={each} aria-pressed={mode === each} onClick={() => put({ mode: each })}>{s.modes[each]}</button>)}
          </div>
        )}
      </div>
      {!run && chosen && <p class="oo-warning" role="alert">{s.gone_model}</p>}
      <Trouble of={first.trouble} />
      {run && !model && !first.trouble && <p class="oo-note oo-busy" role="status">{s.loadingModel}</p>}
      {model?.notice && <p class="oo-note">{model.notice}</p>}
      {model && (model.task === "translation" ? <Translation model={model} key={model.name} />
        : model.task === "forecast" ? <Forecast model={model} key={model.name} />
        : !model.writes ? <section><p>{say(s.noWriter, { task: model.task })}</p></section>
        : mode === "chat" ? <Chat model={model} key={model.name} />
        : <Texts model={model} other={second ? beside.model : null} waiting={!!second && !beside.model} trouble={beside.trouble} key={`${model.name} ${otherName}`} />)}
    </div>
  );
}

const nameWith = (run: string, step: string | null): string => (step === null || step === "best" ? run : `${run}@${step}`);

function Picker({ label, none, runs, run, step, pick }: { label: string; none?: string; runs: Run[]; run: string | null; step: string | null; pick: (run: string | null, step: string | null) => void }) {
  const { s } = useWords(), found = runs.find((each) => each.id === run);
  return (
    <div class="oo-picker">
      <label>{label} <select value={run ?? ""} onChange={(event) => pick(event.currentTarget.value || null, null)}>
        {none !== undefined && <option value="">{none}</option>}
        {run && !found && <option value={run}>{shortName(run)}</option>}
        {runs.map((each) => <option key={each.id} value={each.id}>{shortName(each.id)}</option>)}
      </select></label>
      {found && <label>{s.checkpoint} <select value={step ?? "best"} onChange={(event) => pick(run, event.currentTarget.value === "best" ? null : event.currentTarget.value)}>
        {["best", "last"].map((each) => <option key={each} value={each}>{s.checkpoints[each]}</option>)}
        {[...found.checkpoints].reverse().map((each) => <option key={each} value={String(each)}>{say(s.step, { step: each })}</option>)}
      </select></label>}
    </div>
  );
}

interface Side { writer: Writer; on: Branch | null; token: number | null }

/** Trees of texts of one model, or of two. What they hold stands in the address. */
function Texts({ model, other, waiting, trouble }: { model: Model; other: Model | null; waiting: boolean; trouble: unknown }) {
  const { s } = useWords(), { at } = useRoute(), [, again] = useReducer((n: number) => n + 1, 0);
  const writers = useRef<[Writer, Writer] | null>(null);
  writers.current ??= [new Writer(() => again(0)), new Writer(() => again(0))];
  const [prompt, setPrompt] = useState(() => at.get("b") ?? at.getAll("p").pop() ?? model.prompts.find(Boolean) ?? ""), [sampling, setSampling] = useState<Sampling>(() => read(at, model.sampling));
  const length = LENGTHS.includes(Number(at.get("n"))) ? Number(at.get("n")) : LENGTH;
  const [focus, setFocus] = useState<0 | 1>(0), [restoring, setRestoring] = useState(true), colour = at.get("colour") ?? "surprise";
  const models: (Model | null)[] = [model, other], names = [["w", "on", "token"], ["v", "von", "vtoken"]];
  const sides: Side[] = writers.current.map((writer, n) => {
    const key = at.get(names[n][1]), on = (key === null ? null : writer.find(Number(key))) ?? writer.branches[writer.branches.length - 1] ?? null, place = at.get(names[n][2]);
    return { writer, on, token: place === null || !on || Number(place) >= whole(on).length ? null : Number(place) };
  });
  const keep = () => {
    const prompts = [...new Set(writers.current!.flatMap((writer) => writer.branches.filter((each) => !each.parent).map((each) => each.prompt)))];
    put({ p: prompts, w: spelled(writers.current![0].branches, prompts), v: spelled(writers.current![1].branches, prompts) });
  };
  // The address's tree is written again, a branch after what it goes on from.
  useEffect(() => {
    const prompts = at.getAll("p");
    const restore = async (writer: Writer, n: number, name: string) => {
      if (writer.branches.length) return;
      for (const branch of unspelled(at.getAll(names[n][0]), prompts, name, (made) => writer.add(made))) {
        if (branch.parent?.state === "failed") branch.state = "failed";
        else await writer.write(branch);
      }
    };
    const all = [restore(writers.current![0], 0, model.name)];
    if (other) all.push(restore(writers.current![1], 1, other.name));
    void Promise.all(all).then(() => setRestoring(false));
  }, [model.name, other?.name]);
  useEffect(() => put({ t: String(sampling.temperature), k: sampling.top_k === null ? null : String(sampling.top_k), tp: sampling.top_p === null ? null : String(sampling.top_p), mp: sampling.min_p === null ? null : String(sampling.min_p) }), [sampling]);
  useEffect(() => {
    const timer = setTimeout(() => put({ b: prompt }), REST); // browsers allow no step of the address for each key
    return () => clearTimeout(timer);
  }, [prompt]);
  const write = async (n: number, made: Partial<Branch> & { parent: Branch | null }, seed = newSeed()) => {
    const { writer } = sides[n], branch = writer.add({ at: 0, take: null, prompt: made.parent ? "" : prompt, seed, length, sampling, model: models[n]!.name, ...made });
    put({ [names[n][1]]: String(branch.key), [names[n][2]]: null });
    await writer.write(branch);
    keep();
  };
  const begin = () => {
    const seed = newSeed(); // the same for both, so that the models alone differ
    void write(0, { parent: null }, seed);
    if (other) void write(1, { parent: null }, seed);
  };
  const busy = sides.some(({ writer }) => writer.branches.some(({ state }) => state === "writing"));
  const now = sides[other ? focus : 0], tokens = now.on ? whole(now.on) : [], chosen = now.token === null ? null : tokens[now.token];
  const where = useMemo(() => (chosen ? (now.token! > 0 ? tokens.slice(0, now.token!).map(({ id }) => id) : null) : now.on && tokens.length ? tokens.map(({ id }) => id) : prompt), [now.on, now.token, tokens.length, prompt]);
  const take = (id: number) => {
    if (!now.on) return setPrompt(prompt); // nothing is written yet: the prompt's own text goes on below
    void write(other ? focus : 0, { parent: now.on, at: now.token ?? tokens.length, take: id });
  };
  const both = other && sides.every(({ on }) => on?.state === "done") && rootOf(sides[0].on!).prompt === rootOf(sides[1].on!).prompt, alike = both && answerOf(sides[0].on!) === answerOf(sides[1].on!);
  return (
    <>
      <div class={`oo-desk${other ? " oo-two" : ""}`}>
        <section class="oo-prompt" id="oo-prompt">
          <label class="oo-name-of" for="oo-typed">{s.yourBeginning}</label>
          <textarea id="oo-typed" rows={3} spellcheck={false} placeholder={s.beginningHint} value={prompt} onInput={(event) => setPrompt(event.currentTarget.value)}
            onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && begin()} />
          <div class="oo-actions">
            <button type="button" class="oo-primary" disabled={waiting} onClick={begin}>{sides[0].writer.branches.some(({ parent, prompt: of }) => !parent && of === prompt) ? s.another : s.writeIt}</button>
            {busy && <button type="button" onClick={() => sides.forEach(({ writer }) => writer.branches.forEach((each) => each.state === "writing" && writer.stop(each)))}>{s.stopWriting}</button>}
            <label>{s.length} <select value={length} onChange={(event) => put({ n: event.currentTarget.value })}>{LENGTHS.map((n) => <option key={n} value={n}>{say(s.tokensLong, { n })}</option>)}</select></label>
            <label>{s.colour} <select value={colour} onChange={(event) => put({ colour: event.currentTarget.value })}>
              {Object.keys(s.colours).filter((each) => each !== "who" || model.counts || other?.counts).map((each) => <option key={each} value={each}>{s.colours[each]}</option>)}
            </select></label>
          </div>
          <Trouble of={trouble} />
        </section>
        {sides.slice(0, other ? 2 : 1).map((side, n) => (
          <Pane key={n} side={side} model={models[n]!} colour={colour} active={!!other && focus === n} restoring={restoring && at.getAll(names[n][0]).length > 0} focus={() => setFocus(n as 0 | 1)}
            choose={(token) => {
              setFocus(n as 0 | 1);
              put({ [names[n][2]]: token === null ? null : String(token) });
            }}
            open={(branch) => put({ [names[n][1]]: String(branch.key), [names[n][2]]: null })}
            on={() => side.on && void write(n, { parent: side.on, at: whole(side.on).length, take: null })} single={!other} />
        ))}
        {waiting && <section class="oo-pane"><p class="oo-note oo-busy">{s.loadingModel}</p></section>}
        <NextPanel model={(other ? models[focus] : model)!.name} prompt={where} chosen={chosen} counts={(other ? models[focus] : model)!.counts} sampling={sampling} setSampling={setSampling} take={now.on ? take : null} />
      </div>
      {alike && <p class="oo-note">{s.sameTexts}</p>}
      {both && !alike && <Choice key={`${sides[0].on!.key} ${sides[1].on!.key}`} model={model} other={other} branches={[sides[0].on!, sides[1].on!]} />}
      <Judged model={model} />
    </>
  );
}

function read(at: URLSearchParams, usual: Sampling): Sampling {
  const given = (name: string, otherwise: number | null): number | null => {
    const text = at.get(name);
    return text === null || !Number.isFinite(Number(text)) ? otherwise : Number(text);
  };
  const anything = ["t", "k", "tp", "mp"].some((name) => at.has(name));
  return anything ? { temperature: given("t", usual.temperature)!, top_k: given("k", null), top_p: given("tp", null), min_p: given("mp", null) } : usual;
}

function Pane({ side, model, colour, active, restoring, focus, choose, open, on, single }: {
  side: Side; model: Model; colour: string; active: boolean; restoring: boolean; focus: () => void; choose: (token: number | null) => void; open: (branch: Branch) => void; on: () => void; single: boolean;
}) {
  const { s } = useWords(), branch = side.on, tokens = branch ? whole(branch) : [], given = branch ? rootOf(branch).given : 0;
  return (
    <section class={`oo-pane${active ? " oo-active" : ""}`} aria-label={shortName(model.run.id)} onFocusCapture={focus} data-state={branch?.state ?? "none"}>
      {!single && <h2>{shortName(model.run.id)} <span class="oo-state">{say(s.step, { step: model.step })}</span></h2>}
      {!branch ? <p class="oo-note">{restoring ? s.writingAgain : s.nothingWritten}</p> : (
        <>
          <TokenText tokens={tokens} given={given} chosen={side.token} colour={colour} choose={choose} writing={branch.state === "writing"} />
          <Key colour={colour} />
          {branch.notice && <p class="oo-note">{branch.notice}</p>}
          {branch.cut > 0 && <p class="oo-note">{say(s.forgotten, { n: model.context })}</p>}
          {branch.state === "done" && s.ended[branch.end] && <p class="oo-note">{s.ended[branch.end]}</p>}
          <Trouble of={branch.trouble} />
          <div class="oo-actions">
            <button type="button" disabled={branch.state !== "done"} onClick={on}>{s.writeOn}</button>
            {branch.state === "done" && <Thumbs key={branch.key} model={model} prompt={rootOf(branch).prompt} answer={answerOf(branch)} />}
          </div>
        </>
      )}
      {side.writer.branches.length > 1 && <Tree writer={side.writer} on={branch} open={open} />}
    </section>
  );
}

/** The text with its tokens; the pointer, a click or the arrow keys choose one. */
export function TokenText({ tokens, given, chosen, colour, choose, writing }: { tokens: Token[]; given: number; chosen: number | null; colour: string; choose: (token: number | null) => void; writing: boolean }) {
  const { s } = useWords(), [over, setOver] = useState<{ n: number; x: number; y: number } | null>(null), box = useRef<HTMLDivElement>(null);
  const placeOf = (target: EventTarget | null): number | null => {
    const found = (target as HTMLElement | null)?.closest?.("[data-n]");
    return found ? Number((found as HTMLElement).dataset.n) : null;
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (step) choose(Math.max(0, Math.min(tokens.length - 1, (chosen ?? (step > 0 ? given - 1 : tokens.length)) + step)));
    else if (event.key === "Escape") choose(null);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(tokens.length - 1);
    else return;
    event.preventDefault();
  };
  useEffect(() => {
    if (chosen !== null && document.activeElement === box.current) box.current?.querySelector(`[data-n="${chosen}"]`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const hovered = over && tokens[over.n];
  return (
    <div class="oo-written">
      <div ref={box} class={`oo-tokens${writing ? " oo-writing" : ""}`} tabIndex={0} role="group" aria-label={s.textLabel} onKeyDown={key}
        onClick={(event) => {
          const n = placeOf(event.target);
          choose(n === chosen ? null : n);
        }}
        onMouseOver={(event) => {
          const n = placeOf(event.target), to = event.target as HTMLElement;
          setOver(n === null ? null : { n, x: to.offsetLeft, y: to.offsetTop + to.offsetHeight });
        }}
        onMouseLeave={() => setOver(null)}>
        {tokens.map((each, n) => <TokenSpan key={n} token={each} n={n} given={n < given} chosen={n === chosen} colour={colour} />)}
      </div>
      {hovered && hovered.best.length > 0 && (
        <div class="oo-tip" style={{ left: `min(${over.x}px, calc(100% - 13.5rem))`, top: `${over.y + 4}px` }} aria-hidden="true">
          {hovered.best.slice(0, 5).map(([id, text, log]) => <span key={id} class={id === hovered.id ? "oo-was" : ""}><bdi>{visible(text)}</bdi><i style={{ width: `${5 * Math.exp(log)}rem` }} /><em>{percent(Math.exp(log))}</em></span>)}
          {hovered.log !== null && !hovered.best.slice(0, 5).some(([id]) => id === hovered.id) && <span class="oo-was"><bdi>{visible(hovered.text)}</bdi><i style={{ width: `${5 * Math.exp(hovered.log)}rem` }} /><em>{percent(Math.exp(hovered.log))}</em></span>}
          {hovered.share && <small>{s.keyWho[1]} {percent(hovered.share[0])} · {s.keyWho[0]} {percent(1 - hovered.share[0])}</small>}
        </div>
      )}
    </div>
  );
}

function TokenSpan({ token, n, given, chosen, colour }: { token: Token; n: number; given: boolean; chosen: boolean; colour: string }) {
  const style: Record<string, string> = {};
  let kind = "";
  if (colour === "who" && token.share) {
    kind = " oo-by";
    style["--w"] = `${Math.round(100 * token.share[0])}%`;
  } else if (colour === "surprise" && token.log !== null) {
    kind = " oo-tint";
    style["--p"] = `${Math.round(100 * Math.min(1, -token.log / TINT))}%`;
  }
  const breaks = token.text.includes("\n");
  return (
    <span data-n={n} class={`oo-t${kind}${given ? " oo-given" : ""}${chosen ? " oo-picked" : ""}`} style={style}>
      {token.text === "" ? (token.log === null ? "" : <i class="oo-unseen">∅</i>) : breaks ? token.text.split("\n").flatMap((part, k) => (k ? [<i class="oo-unseen">↵</i>, "\n", part] : [part])) : token.text}
    </span>
  );
}

function Key({ colour }: { colour: string }) {
  const { s } = useWords();
  if (colour === "none") return null;
  const [low, high] = colour === "who" ? s.keyWho : s.keySurprise;
  return <p class={`oo-scale-key oo-key-${colour}`} aria-hidden="true"><span>{low}</span><i /><span>{high}</span></p>;
}

/** Branches below what they leave, and a step back and forth between them. */
function Tree({ writer, on, open }: { writer: Writer; on: Branch | null; open: (branch: Branch) => void }) {
  const { s } = useWords();
  const below = (parent: Branch | null): preact.JSX.Element | null => {
    const all = writer.branches.filter((each) => each.parent === parent);
    if (!all.length) return null;
    return (
      <ul>
        {all.map((each) => {
          const old = parent && whole(parent)[each.at], taken = each.take !== null ? each.own[0] : null;
          const what = !parent ? s.treeRoot : taken && old ? say(s.treeAt, { old: visible(old.text), new: visible(taken.text) }) : s.treeOn;
          const text = textOf(parent ? each.own : each.own.slice(each.given)).trim().replace(/\s+/g, " ").slice(0, 60);
          return (
            <li key={each.key}>
              <button type="button" aria-current={each === on} onClick={() => open(each)}><b>{what}</b> {text}{each.state === "writing" ? " …" : ""}</button>
              {below(each)}
            </li>
          );
        })}
      </ul>
    );
  };
  return <details class="oo-tree" open><summary>{s.treeTitle}</summary><p class="oo-note">{s.treeNote}</p>{below(null)}</details>;
}

/** A thumb up or down for a text; pressed again, it is taken back. */
export function Thumbs({ model, prompt, answer }: { model: Model; prompt: unknown; answer: string }) {
  const { s } = useWords(), [good, setGood] = useState<boolean | null>(null), [trouble, setTrouble] = useState<unknown>(null);
  const judge = async (wanted: boolean) => {
    const now = good === wanted ? null : wanted;
    try {
      await asked("/api/judge", { body: { kind: "thumb", model: model.name, prompt, answer, good: now } });
      setGood(now);
      setTrouble(null);
      dispatchEvent(new Event("octavo-judged"));
    } catch (error) {
      setTrouble(error);
    }
  };
  return (
    <>
      <button type="button" aria-pressed={good === true} onClick={() => judge(true)}><Thumb /> {s.good}</button>
      <button type="button" aria-pressed={good === false} onClick={() => judge(false)}><Thumb down /> {s.bad}</button>
      <Trouble of={trouble} />
    </>
  );
}

function Choice({ model, other, branches }: { model: Model; other: Model; branches: [Branch, Branch] }) {
  const { s } = useWords(), [kept, setKept] = useState<number | null>(null), [trouble, setTrouble] = useState<unknown>(null);
  const choose = async (n: 0 | 1) => {
    try {
      await asked("/api/judge", { body: { kind: "choice", model: model.name, other: other.name, prompt: rootOf(branches[0]).prompt, chosen: answerOf(branches[n]), rejected: answerOf(branches[1 - n]) } });
      setKept(n);
      dispatchEvent(new Event("octavo-judged"));
    } catch (error) {
      setTrouble(error);
    }
  };
  return (
    <section class="oo-choice" id="oo-choice" aria-label={s.whichBetter}>
      <h2>{s.whichBetter}</h2>
      <div class="oo-actions">{([0, 1] as const).map((n) => <button type="button" key={n} aria-pressed={kept === n} onClick={() => choose(n)}>{n ? s.rightOne : s.leftOne}: {shortName((n ? other : model).run.id)}</button>)}
        <button type="button" class="oo-plain" onClick={() => setKept(-1)}>{s.neither}</button>
        {kept !== null && kept >= 0 && <span class="oo-note" role="status">{s.kept}</span>}</div>
      <Trouble of={trouble} />
    </section>
  );
}
