import { Engine } from "./engine";
import type { Facts } from "./facts";
import { Tokenizer } from "./tokenizer";
import { inflated } from "./unpack";

async function start(): Promise<void> {
  const facts = JSON.parse(document.getElementById("octavo-explain-facts")!.textContent!) as Facts;
  const raw = await inflated(document.getElementById("octavo-explain-weights")!.textContent!);
  const tokenizer = new Tokenizer(facts.tokenizer);
  const engine = await Engine.open(facts, raw), twin = await Engine.open(facts, raw, false);
  Object.assign(window, { octavo: { facts, engine, twin, tokenizer } });
  document.getElementById("octavo-explain")!.dataset.ready = "yes";
}
start().catch((error) => (document.getElementById("octavo-explain")!.textContent = String(error)));
