// Talking with a model that has a template. Each turn may have several answers; the one that is chosen goes on.
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { say } from "../strings";
import { ask, asked, events } from "./api";
import { Judged } from "./judged";
import { Trouble } from "./pieces";
import { Thumbs, type Model } from "./play";
import { put, useRoute } from "./route";
import { useWords } from "./words";
import { newSeed } from "./writer";

interface Answer { seed: number; text: string; state: "writing" | "done" | "failed"; trouble: unknown }
interface Turn { said: string; answers: Answer[]; on: number }
interface Chunk { choices?: { delta?: { content?: string } }[]; error?: { message: string } }

const MOST = 400;

export function Chat({ model }: { model: Model }) {
  const { s } = useWords(), { at } = useRoute(), [, again] = useReducer((n: number) => n + 1, 0);
  const turns = useRef<Turn[]>([]), [typed, setTyped] = useState(""), [kept, setKept] = useState<string | null>(null);
  const end = useRef<HTMLDivElement>(null), stops = useRef(new Set<AbortController>());
  const messages = (until: number) => turns.current.slice(0, until + 1).flatMap((turn, n) => [
    { role: "user", content: turn.said }, ...(n < until ? [{ role: "assistant", content: turn.answers[turn.on].text }] : []),
  ]);
  // Turns stand in the address as what was said, the seeds of its answers, and which one is on; they are written again.
  const keep = () => put({ c: turns.current.map((turn) => `${turn.on}_${turn.answers.map(({ seed }) => seed).join(".")}_${turn.said}`) });
  const write = async (turn: Turn, place: number, seed: number) => {
    const answer: Answer = { seed, text: "", state: "writing", trouble: null }, stop = new AbortController();
    turn.answers.push(answer);
    turn.on = turn.answers.length - 1;
    stops.current.add(stop);
    again(0);
    try {
      const response = await ask("/v1/chat/completions", { body: { model: model.name, messages: messages(place), stream: true, seed, max_tokens: MOST, truncate: true }, signal: stop.signal });
      for await (const chunk of events<Chunk>(response)) {
        if (chunk.error) throw new Error(chunk.error.message);
        answer.text += chunk.choices?.map(({ delta }) => delta?.content ?? "").join("") ?? "";
        again(0);
      }
      answer.state = "done";
    } catch (error) {
      answer.state = stop.signal.aborted ? "done" : "failed";
      answer.trouble = stop.signal.aborted ? null : error;
    }
    stops.current.delete(stop);
    again(0);
  };
  useEffect(() => {
    const restore = async () => {
      for (const word of at.getAll("c")) {
        const [on, seeds, ...said] = word.split("_"), turn: Turn = { said: said.join("_"), answers: [], on: 0 };
        turns.current.push(turn);
        for (const seed of seeds.split(".").map(Number)) if (Number.isInteger(seed)) await write(turn, turns.current.length - 1, seed);
        turn.on = Math.min(Number(on) || 0, Math.max(0, turn.answers.length - 1));
        if (!turn.answers.length) turns.current.pop();
      }
      again(0);
    };
    void restore();
    return () => stops.current.forEach((each) => each.abort());
  }, []);
  const busy = turns.current.some((turn) => turn.answers.some(({ state }) => state === "writing"));
  const send = async () => {
    const said = typed.trim();
    if (!said || busy) return;
    setTyped("");
    turns.current.push({ said, answers: [], on: 0 });
    await write(turns.current[turns.current.length - 1], turns.current.length - 1, newSeed());
    keep();
    end.current?.scrollIntoView({ block: "nearest" });
  };
  const choose = async (turn: Turn, place: number) => {
    const others = turn.answers.filter((each, n) => n !== turn.on && each.text !== turn.answers[turn.on].text && each.state === "done");
    for (const each of others) await asked("/api/judge", { body: { kind: "choice", model: model.name, prompt: messages(place), chosen: turn.answers[turn.on].text, rejected: each.text } });
    setKept(`${place} ${turn.on}`);
    dispatchEvent(new Event("octavo-judged"));
  };
  return (
    <>
      <section class="oo-chat" id="oo-chat" aria-label={s.chatLabel}>
        <ol aria-live="polite">
          {turns.current.map((turn, place) => {
            const answer = turn.answers[turn.on], last = place === turns.current.length - 1;
            return (
              <li key={place}>
                <div class="oo-you"><span class="oo-aside">{s.you}</span><p>{turn.said}</p></div>
                {answer && (
                  <div class="oo-it" data-state={answer.state}><span class="oo-aside">{s.it}</span><p>{answer.text || (answer.state === "writing" ? "…" : "∅")}</p>
                    <Trouble of={answer.trouble} />
                    <div class="oo-actions">
                      {turn.answers.length > 1 && <><button type="button" class="oo-plain" aria-label="←" disabled={!turn.on} onClick={() => { turn.on--; keep(); again(0); }}>←</button><span class="oo-note">{say(s.answerOf, { n: turn.on + 1, all: turn.answers.length })}</span><button type="button" class="oo-plain" aria-label="→" disabled={turn.on === turn.answers.length - 1} onClick={() => { turn.on++; keep(); again(0); }}>→</button></>}
                      {last && <button type="button" disabled={busy} onClick={() => write(turn, place, newSeed()).then(keep)}>{s.anotherAnswer}</button>}
                      {turn.answers.length > 1 && answer.state === "done" && <button type="button" aria-pressed={kept === `${place} ${turn.on}`} onClick={() => choose(turn, place)}>{s.chooseAnswer}</button>}
                      {answer.state === "done" && <Thumbs key={`${place} ${turn.on}`} model={model} prompt={messages(place)} answer={answer.text} />}
                    </div>
                  </div>
                )}
              </li>
            );
          })}
        </ol>
        <div ref={end} />
        <form class="oo-say" onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}>
          <input type="text" aria-label={s.chatHint} placeholder={s.chatHint} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          {busy ? <button type="button" onClick={() => stops.current.forEach((each) => each.abort())}>{s.stopWriting}</button> : <button type="submit" class="oo-primary">{s.send}</button>}
          {turns.current.length > 0 && <button type="button" class="oo-plain" disabled={busy} onClick={() => { turns.current = []; keep(); again(0); }}>{s.begin_again}</button>}
        </form>
      </section>
      <Judged model={model} />
    </>
  );
}
