// What was judged so far of a run, and the way from there to a model that has learned from it.
import { useEffect, useState } from "preact/hooks";
import { say } from "../strings";
import { asked } from "./api";
import { start } from "./jobs";
import { Command, Trouble } from "./pieces";
import type { Model } from "./play";
import { go } from "./route";
import { typed } from "./shell";
import { useWords } from "./words";

interface Kept { choices: number; thumbs: number; pairs: number; path: string }

export function Judged({ model }: { model: Model }) {
  const { s } = useWords(), [kept, setKept] = useState<Kept | null>(null), [trouble, setTrouble] = useState<unknown>(null);
  useEffect(() => {
    const load = () => asked<Kept>("/api/judged", { body: { model: model.run.id } }).then(setKept, () => undefined);
    void load();
    addEventListener("octavo-judged", load);
    return () => removeEventListener("octavo-judged", load);
  }, [model.run.id]);
  if (!kept) return null;
  const words = typed("octavo", "tune", "dpo", model.run.path, "--text", kept.path);
  return (
    <section class="oo-judged" id="oo-judged" data-pairs={kept.pairs}>
      <h2>{s.judgeTitle}</h2>
      <p class="oo-note">{kept.pairs ? say(s.judgeNote, { ...kept }) : s.judgeFew}</p>
      {kept.pairs > 0 && <Command words={words} />}
      {kept.pairs > 0 && (model.chats
        ? <p><button type="button" onClick={() => start({ kind: "tune", run: model.run.id }).then((job) => go("watch", { job: job.id }), setTrouble)}>{s.judgeTune}</button></p>
        : <p class="oo-note">{s.judgeNoChat}</p>)}
      <Trouble of={trouble} />
    </section>
  );
}
