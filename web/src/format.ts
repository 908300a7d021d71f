// Numbers for the eye.

const MINUS = "−";

/** About three digits that count. */
export function short(x: number): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "?" : x > 0 ? "∞" : `${MINUS}∞`;
  const size = Math.abs(x), digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3;
  const text = size > 0 && size < 0.0005 ? size.toExponential(0) : size.toFixed(digits);
  return x < 0 && Number(text) !== 0 ? MINUS + text : text;
}

export function signed(x: number, digits = 3): string {
  const text = Math.abs(x).toFixed(digits);
  return Number(text) === 0 ? text : (x < 0 ? MINUS : "+") + text;
}

export function percent(p: number): string {
  return p >= 0.0995 ? `${Math.round(100 * p)} %` : p >= 0.001 ? `${(100 * p).toFixed(1)} %` : p > 0 ? "< 0.1 %" : "0 %";
}

export const thousands = (n: number): string => Math.round(n).toLocaleString("en-US");
