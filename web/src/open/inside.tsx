// The explainer of a run: its page in a frame that can reach nothing of this one.
import { useEffect, useState } from "preact/hooks";
import { say } from "../strings";
import { openWindow, ticketed } from "./api";
import { Jobs, start } from "./jobs";
import { Command, RunPicker, shortName, Trouble } from "./pieces";
import { address, put, useRoute } from "./route";
import { typed } from "./shell";
import { runsOf, useThings, type Job } from "./things";
import { useWords } from "./words";

export function Inside() {
  const { s, language } = useWords(), them = useThings(), { at } = useRoute(), [trouble, setTrouble] = useState<unknown>(null), [source, setSource] = useState<string | null>(null);
  const able = runsOf(them).filter((run) => run.checkpoints.length > 0), run = able.find((each) => each.id === at.get("run")) ?? able.find((each) => !each.study) ?? able[0];
  const which = run?.explained ? "explain" : run?.report ? "report" : null, made = them.all<Job>("job").filter((job) => job.kind === "explain" && job.about === run?.path);
  const making = made.some((job) => job.running), last = Math.max(0, ...made.map((job) => job.ended ?? 0));
  const query = which && run ? { run: run.id, which, lang: language } : null, wanted = query && !making ? `${JSON.stringify(query)} ${last}` : "";
  useEffect(() => {
    setSource(null);
    if (!wanted) return;
    let gone = false;
    ticketed("/api/page", query!).then((found) => !gone && setSource(found), setTrouble);
    return () => {
      gone = true;
    };
  }, [wanted]);
  if (!run) return <section class="oo-empty"><h1>{s.insideTitle}</h1><p>{s.insideNone}</p><p><a class="oo-button oo-primary" href={address("start")}>{s.startOne}</a></p></section>;
  const make = () => start({ kind: "explain", run: run.id }).then(() => setTrouble(null), setTrouble);
  return (
    <div class="oo-inside" id="oo-inside">
      <div class="oo-lead"><h1>{s.insideTitle}</h1><p>{s.insideLead}</p></div>
      <div class="oo-pick"><RunPicker label={s.model} runs={able} run={run.id} pick={(id) => put({ run: id })} />
        {run.task === "text" || run.task === "chat" || !run.task ? <button type="button" class={which ? "" : "oo-primary"} disabled={making} onClick={make}>{which ? s.insideAgain : s.insideMake}</button> : null}
        {query && <button type="button" onClick={() => openWindow("/api/page", query).catch(setTrouble)}>{s.insideWhole}</button>}</div>
      {!run.explained && <p class="oo-note">{run.report ? s.insideNot : s.insideMakeNote}</p>}
      <Trouble of={trouble} />
      <Jobs kinds={["explain"]} />
      {source && <iframe class="oo-frame" key={source} src={`${source}#look-inside`} sandbox="allow-scripts" title={say(s.insideFrame, { name: shortName(run.id) })} />}
      <Command words={typed("octavo", "explain", run.path, "--out", `${run.path}/explain.html`, "--force")} />
    </div>
  );
}
