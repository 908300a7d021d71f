// Taking a model away: written for other programs, with what was proven of it there.
import { useState } from "preact/hooks";
import { say } from "../strings";
import { Jobs, start } from "./jobs";
import { Command, RunPicker, Trouble } from "./pieces";
import { address, put, useRoute } from "./route";
import { typed } from "./shell";
import { runsOf, useThings, type About, type Exported } from "./things";
import { ago, useWords } from "./words";

const TARGETS = ["hf", "gguf", "onnx", "torch"];

export function Away() {
  const { s } = useWords(), them = useThings(), { at } = useRoute(), [trouble, setTrouble] = useState<unknown>(null), [target, setTarget] = useState("hf");
  const able = runsOf(them).filter((run) => run.checkpoints.length > 0), run = able.find((each) => each.id === at.get("run")) ?? able.find((each) => !each.study) ?? able[0];
  if (!run) return <section class="oo-empty"><h1>{s.awayTitle}</h1><p>{s.awayNone}</p><p><a class="oo-button oo-primary" href={address("start")}>{s.startOne}</a></p></section>;
  const counts = run.counts, exported = them.all<Exported>("export").sort((a, b) => b.written - a.written);
  const pack = () => start({ kind: "export", run: run.id, to: target, network_only: counts }).then(() => setTrouble(null), setTrouble);
  return (
    <div class="oo-away" id="oo-away">
      <div class="oo-lead"><h1>{s.awayTitle}</h1><p>{s.awayLead}</p></div>
      <Jobs kinds={["export"]} />
      <section>
        <div class="oo-pick"><RunPicker label={s.model} runs={able} run={run.id} pick={(id) => put({ run: id })} /></div>
        <div class="oo-targets" role="radiogroup" aria-label={s.awayTitle}>
          {TARGETS.map((each) => (
            <label key={each} class={each === target ? "oo-on" : ""}><input type="radio" name="target" value={each} checked={each === target} onChange={() => setTarget(each)} /><b>{s.targets[each][0]}</b><span>{s.targets[each][1]}</span></label>
          ))}
        </div>
        {counts && <p class="oo-note">{s.networkOnly}</p>}
        <p><button type="button" class="oo-primary oo-large" onClick={pack}>{s.pack}</button></p>
        <Trouble of={trouble} />
        <Command words={typed("octavo", "export", run.path, "--to", target, "--out", `${them.get<About>("about")!.exports}/${run.path.split("/").pop()}-${target}`, ...(counts ? ["--network-only"] : []))} />
      </section>
      <section id="oo-packed">
        <h2>{s.packed}</h2>
        {!exported.length && <p class="oo-note">{s.packedNone}</p>}
        {exported.map((each) => (
          <article key={each.id} class="oo-certificate">
            <h3>{s.targets[each.target]?.[0] ?? each.target} · {each.id} <span class={`oo-state ${each.missed.length ? "oo-damaged" : "oo-finished"}`}>{each.missed.length ? s.notProven : s.proven}</span></h3>
            <dl class="oo-facts">
              {([[s.logitsDiffer, each.logits?.toExponential(1)], [s.greedyEqual, each.greedy && say(s.ofAll, { n: each.greedy[0], all: each.greedy[1] })], [s.idsEqual, each.ids && say(s.ofAll, { n: each.ids[0], all: each.ids[1] })], [s.lossThere, each.loss?.toFixed(4)]] as [string, string | undefined][]).filter(([, value]) => value).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
            </dl>
            {each.missed.map((why) => <p class="oo-warning" key={why}>{why}</p>)}
            <p class="oo-note">{say(s.lies, { path: each.path })} · {ago(each.written, s)}</p>
          </article>
        ))}
      </section>
      <section>
        <h2>{s.alsoTitle}</h2>
        <Command label={s.alsoServe} words={typed("octavo", "serve", run.path)} />
        <Command label={s.alsoPage} words={typed("octavo", "explain", run.path, "--out", "model.html")} />
        <p class="oo-note">{say(s.alsoFolder, { path: run.path })}</p>
      </section>
    </div>
  );
}
