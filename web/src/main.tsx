// The page begins: unpack, open the model, draw. Whatever fails is said in the page, and the rest of it stands.
import { render } from "preact";
import { App } from "./app";
import { Engine } from "./engine";
import type { Facts } from "./facts";
import { say, en } from "./strings";
import "./style.css";
import { Tokenizer } from "./tokenizer";
import { inflated } from "./unpack";

const FORMAT = 1;

async function start(place: HTMLElement): Promise<void> {
  const held = (id: string) => document.getElementById(`octavo-explain-${id}`)!.textContent!;
  if (typeof DecompressionStream === "undefined") throw new Error(en.oldBrowser);
  let facts: Facts, raw: ArrayBuffer;
  try {
    facts = JSON.parse(held("facts")) as Facts;
    raw = await inflated(held("weights"));
  } catch (error) {
    throw new Error(say(en.damaged, { why: String((error as Error).message ?? error) }));
  }
  if (facts.format !== FORMAT) throw new Error(say(en.newer, { format: facts.format }));
  const engine = await Engine.open(facts, raw), tokenizer = new Tokenizer(facts.tokenizer);
  // For the console, and for tests.
  Object.assign(window, { octavo: { facts, engine, tokenizer, open: (native: boolean) => Engine.open(facts, raw, native) } });
  place.textContent = "";
  render(<App facts={facts} engine={engine} tokenizer={tokenizer} />, place);
  place.dataset.ready = "yes";
}

const place = document.getElementById("octavo-explain");
if (place)
  start(place).catch((error: Error) => {
    const said = document.createElement("p");
    said.setAttribute("role", "alert");
    said.textContent = say(en.failed, { why: error.message });
    place.replaceChildren(said);
    place.dataset.ready = "no";
  });
