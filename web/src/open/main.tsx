// The page begins: follow the server, draw.
import { render } from "preact";
import { Page } from "./page";
import { things } from "./things";
import * as series from "./series";
import { curves } from "./curves";
import { typed } from "./shell";
import "./open.css";

// For the console, and for tests.
Object.assign(window, { octavo: { things, series, curves, typed } });
render(<Page />, document.getElementById("octavo-open")!);
void things.follow();
