// Commands that were started here: what they do, how to stop them, and how they ended.
import { useState } from "preact/hooks";
import { say } from "../strings";
import { ask, asked } from "./api";
import { Command, Trouble } from "./pieces";
import { address, go, useRoute } from "./route";
import { useThings, type Job, type Run } from "./things";
import { useWords } from "./words";

const RECENT = 3600, HIDDEN = "octavo-hidden";

export const nameOf = (job: Job): string => job.about.split("/").pop() ?? job.about;

function hidden(): string[] {
  try {
    return JSON.parse(sessionStorage.getItem(HIDDEN) ?? "[]") as string[];
  } catch {
    return [];
  }
}

/** Start a command: its job. */
export const start = (wish: Record<string, unknown>): Promise<Job> => asked<Job>("/api/start", { body: wish });

/** The jobs that run, and those that ended lately. */
export function Jobs({ kinds }: { kinds: string[] }) {
  const them = useThings(), [gone, setGone] = useState(hidden);
  const now = Date.now() / 1000, key = (job: Job) => `${job.id}-${job.began}`;
  const shown = them.all<Job>("job").filter((job) => kinds.includes(job.kind) && (job.running || (now - (job.ended ?? job.began) < RECENT && !gone.includes(key(job))))).reverse();
  if (!shown.length) return null;
  return (
    <div class="oo-jobs">
      {shown.map((job) => <JobCard key={key(job)} job={job} run={them.all<Run>("run").find((run) => run.path === job.about)} hide={() => {
        const all = [...gone, key(job)];
        setGone(all);
        try {
          sessionStorage.setItem(HIDDEN, JSON.stringify(all));
        } catch {
          // then it is there again after a reload
        }
      }} />)}
    </div>
  );
}

function JobCard({ job, run, hide }: { job: Job; run: Run | undefined; hide: () => void }) {
  const { s } = useWords(), [trouble, setTrouble] = useState<unknown>(null), [log, setLog] = useState<string | null>(null);
  const { view } = useRoute(), training = ["train", "more", "demo", "tune"].includes(job.kind), share = run?.held && run.steps ? Math.min(1, run.step / run.steps) : null;
  const said = job.running ? job.said[job.said.length - 1] : null;
  const state = job.stopping ? s.jobStopping : job.running ? s.jobRunning : job.error !== null ? (job.code === null ? s.jobLost : s.jobFailed) : job.code === 0 ? s.jobDone : s.jobStopped;
  return (
    <section class={`oo-job ${job.running ? "oo-is-running" : job.error !== null ? "oo-is-wrong" : "oo-is-done"}`} data-job={job.id} aria-label={say(s.jobs[job.kind] ?? job.kind, { name: nameOf(job) })}>
      <h3>{job.running && <i class="oo-pulse" />}{say(s.jobs[job.kind] ?? job.kind, { name: nameOf(job) })} <span class="oo-state" role="status">{state}</span></h3>
      {job.running && <div class="oo-meter"><i style={share === null ? {} : { width: `${100 * share}%` }} class={share === null ? "oo-unknown" : ""} /></div>}
      {said && <p class="oo-note oo-last">{said}</p>}
      {job.error && <p class="oo-warning">{job.error.split("\n").map((line, n) => <span key={n}>{line}<br /></span>)}</p>}
      <div class="oo-actions">
        {job.running && <button type="button" title={s.stopNote} disabled={job.stopping} onClick={() => ask("/api/stop", { body: { job: job.id } }).then(() => setTrouble(null), setTrouble)}>{s.stop}</button>}
        {run && training && view !== "watch" && <a class="oo-button" href={address("watch", { run: run.id, focus: run.id })}>{s.watchIt}</a>}
        {run && training && run.checkpoints.length > 0 && <a class={`oo-button ${job.running ? "" : "oo-primary"}`} href={address("play", { run: run.id })}>{s.playIt}</a>}
        {run && !job.running && view !== "inside" && job.kind === "explain" && job.code === 0 && <button type="button" class="oo-primary" onClick={() => go("inside", { run: run.id })}>{s.insideIt}</button>}
        <button type="button" class="oo-plain" aria-expanded={log !== null} onClick={() => (log === null ? ask("/api/said", { query: { job: job.id } }).then((found) => found.text()).then(setLog, setTrouble) : setLog(null))}>{s.allSaid}</button>
        {!job.running && <button type="button" class="oo-plain" onClick={hide}>{s.forget}</button>}
        {job.running && <span class="oo-note">{s.goesOn}</span>}
      </div>
      <Trouble of={trouble} />
      {log !== null && <><Command words={job.command} /><pre class="oo-log" tabIndex={0}>{log}</pre></>}
    </section>
  );
}
