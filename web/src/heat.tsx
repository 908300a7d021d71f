// A picture of a matrix: a pixel for each number, stretched. Orange is above zero, blue below, hatched is masked.
import { useEffect, useRef, useState } from "preact/hooks";
import { short } from "./format";

export interface HeatProps {
  label: string;
  rows: number;
  cols: number;
  value: (row: number, col: number) => number;
  /** The number that has the full colour; without it, the largest one. */
  most?: number;
  selected?: [number, number] | null;
  onPick?: (row: number, col: number) => void;
  rowName?: (row: number) => string;
  colName?: (col: number) => string;
  cell?: number;
  /** In pixels; or the whole row. */
  width?: number | "full";
  height?: number;
  theme: number;
}

type Rgb = [number, number, number];

function colour(name: string): Rgb {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hex = text.length === 4 ? [...text.slice(1)].map((c) => c + c).join("") : text.slice(1);
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) || 0) as Rgb;
}

export function paint(
  canvas: HTMLCanvasElement, rows: number, cols: number, value: (row: number, col: number) => number, most?: number,
): void {
  canvas.width = Math.max(1, cols);
  canvas.height = Math.max(1, rows);
  const context = canvas.getContext("2d");
  if (!context || !rows || !cols) return;
  let limit = most ?? 0;
  if (most === undefined)
    for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) limit = Math.max(limit, Math.abs(value(r, c)) || 0);
  const none = colour("--code"), above = colour("--model"), below = colour("--train"), masked = colour("--grid");
  const image = context.createImageData(cols, rows);
  for (let r = 0, i = 0; r < rows; r++)
    for (let c = 0; c < cols; c++, i += 4) {
      const x = value(r, c), share = Number.isNaN(x) ? 0 : Math.min(1, Math.sqrt(Math.abs(x) / (limit || 1)));
      const from = Number.isNaN(x) ? masked : none, to = x < 0 ? below : above;
      for (let k = 0; k < 3; k++) image.data[i + k] = from[k] + (to[k] - from[k]) * share;
      image.data[i + 3] = 255;
    }
  context.putImageData(image, 0, 0);
}

export function Heat(props: HeatProps) {
  const { label, rows, cols, value, most, selected, onPick, theme, cell = 9 } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [over, setOver] = useState<[number, number] | null>(null);
  useEffect(() => {
    if (canvas.current) paint(canvas.current, rows, cols, value, most);
  });
  const at = over ?? selected ?? null;
  const inside = at && at[0] < rows && at[1] < cols ? at : null;
  const told = inside
    ? `${props.rowName?.(inside[0]) ?? inside[0]} · ${props.colName?.(inside[1]) ?? inside[1]}: ${short(value(...inside))}`
    : " ";
  const place = (event: MouseEvent): [number, number] => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows), col = Math.floor(((event.clientX - box.left) / box.width) * cols);
    return [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(cols - 1, col))];
  };
  const move = (event: KeyboardEvent) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !onPick) return;
    event.preventDefault();
    const [r, c] = selected ?? [0, 0];
    onPick(Math.max(0, Math.min(rows - 1, r + step[0])), Math.max(0, Math.min(cols - 1, c + step[1])));
  };
  const size = { width: props.width === "full" ? "100%" : `${props.width ?? cols * cell}px`, height: `${props.height ?? rows * cell}px` };
  const mark = selected && selected[0] < rows && selected[1] < cols && (
    <i class="ox-mark" style={{ left: `${(100 * selected[1]) / cols}%`, top: `${(100 * selected[0]) / rows}%`, width: `${100 / cols}%`, height: `${100 / rows}%` }} />
  );
  const inner = [<canvas ref={canvas} aria-hidden="true" data-theme={theme} />, mark];
  return (
    <figure class={`ox-heat${props.width === "full" ? " ox-full-width" : ""}`}>
      <figcaption>{label}</figcaption>
      {onPick ? (
        <button type="button" class="ox-picture" style={size} aria-label={`${label}. ${told}`} onKeyDown={move}
          onMouseMove={(event) => setOver(place(event))} onMouseLeave={() => setOver(null)}
          onClick={(event) => event.detail && onPick(...place(event))}>{inner}</button>
      ) : (
        <div class="ox-picture" style={size} role="img" aria-label={label}>{inner}</div>
      )}
      {onPick && <p class="ox-told">{told}</p>}
    </figure>
  );
}

/** A head's attention, small. */
export function Thumb({ size, value, theme }: { size: number; value: (row: number, col: number) => number; theme: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (canvas.current) paint(canvas.current, size, size, value, 1);
  });
  return <canvas ref={canvas} class="ox-thumb" aria-hidden="true" data-theme={theme} />;
}
