// Weights out of the page: base64, deflate, and numbers of 16 or 8 bits.
import { bytesOf } from "./arena";
import type { TensorEntry } from "./facts";

export async function inflated(text: string): Promise<ArrayBuffer> {
  const stream = new Blob([bytesOf(text) as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export const sizeOf = (entry: TensorEntry): number => entry.shape.reduce((a, b) => a * b, 1);

/** A float16 by its 16 bits. */
export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, rest = bits & 1023;
  if (power === 0) return sign * rest * 2 ** -24;
  if (power === 31) return rest ? NaN : sign * Infinity;
  return sign * (1 + rest / 1024) * 2 ** (power - 15);
}

let halves: Float32Array | null = null;

export function unpack(entry: TensorEntry, raw: ArrayBuffer, into: Float32Array): void {
  const size = sizeOf(entry);
  if (entry.type === "float32") into.set(new Float32Array(raw, entry.offset, size));
  else if (entry.type === "float16") {
    if (!halves) halves = Float32Array.from({ length: 65536 }, (_, bits) => half(bits));
    const bits = new Uint16Array(raw, entry.offset, size);
    for (let i = 0; i < size; i++) into[i] = halves[bits[i]];
  } else {
    const row = size / entry.shape[0];
    const numbers = new Int8Array(raw, entry.offset, size), scales = new Float32Array(raw, entry.scales, entry.shape[0]);
    for (let i = 0; i < size; i++) into[i] = numbers[i] * scales[(i / row) | 0];
  }
}

/** Whole numbers, which stay what they are. */
export function integers(entry: TensorEntry, raw: ArrayBuffer): Int32Array {
  const size = sizeOf(entry);
  const Kind = entry.type === "uint8" ? Uint8Array : entry.type === "uint16" ? Uint16Array : Int32Array;
  return Int32Array.from(new Kind(raw, entry.offset, size));
}
