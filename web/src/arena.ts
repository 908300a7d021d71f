// All numbers of the model in one memory, so that the kernel reaches each; without WebAssembly, in a plain buffer.
import { KERNEL } from "./kernel";

const PAGE = 65536;
const FIRST = PAGE; // below it the kernel has its stack

export interface Products {
  /** y (rows, out) = x (rows, in) · w (out, in)ᵀ + bias. */
  linear(x: Float32Array, w: Float32Array, bias: Float32Array | null, y: Float32Array, rows: number, into: number, out: number): void;
  /** scores (count) = scale · (keys · q), where the keys (size) of the positions stand `stride` numbers apart. */
  dots(q: Float32Array, keys: Float32Array, scores: Float32Array, scale: number, count: number, stride: number, size: number): void;
  /** y (size) = Σ weights (count) · values, which stand `stride` numbers apart. */
  weighted(weights: Float32Array, values: Float32Array, y: Float32Array, count: number, stride: number, size: number): void;
}

/** The kernel's slow twin. */
export const byHand: Products = {
  linear(x, w, bias, y, rows, into, out) {
    for (let r = 0; r < rows; r++) {
      const from = r * into;
      for (let o = 0; o < out; o++) {
        const own = o * into;
        let a = 0, b = 0, i = 0;
        for (; i + 1 < into; i += 2) {
          a += x[from + i] * w[own + i];
          b += x[from + i + 1] * w[own + i + 1];
        }
        if (i < into) a += x[from + i] * w[own + i];
        y[r * out + o] = a + b + (bias ? bias[o] : 0);
      }
    }
  },
  dots(q, keys, scores, scale, count, stride, size) {
    for (let s = 0; s < count; s++) {
      let sum = 0;
      for (let d = 0; d < size; d++) sum += q[d] * keys[s * stride + d];
      scores[s] = scale * sum;
    }
  },
  weighted(weights, values, y, count, stride, size) {
    y.fill(0, 0, size);
    for (let s = 0; s < count; s++) for (let d = 0; d < size; d++) y[d] += weights[s] * values[s * stride + d];
  },
};

export class Arena {
  private sizes: [string, number][] = [];
  private views = new Map<string, Float32Array>();
  products: Products = byHand;
  native = false;

  /** Ask for room; all of it is taken at once by `open`. */
  reserve(name: string, numbers: number): void {
    this.sizes.push([name, numbers]);
  }

  async open(native: boolean): Promise<void> {
    let end = FIRST;
    const places = this.sizes.map(([name, numbers]) => {
      const place: [string, number, number] = [name, end, numbers];
      end = (end + 4 * numbers + 15) & ~15;
      return place;
    });
    const buffer = (native && (await this.compiled(end))) || new ArrayBuffer(end);
    for (const [name, at, numbers] of places) this.views.set(name, new Float32Array(buffer, at, numbers));
  }

  private async compiled(bytes: number): Promise<ArrayBuffer | null> {
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE) });
      const module = await WebAssembly.instantiate(bytesOf(KERNEL) as BufferSource, { env: { memory } });
      const kernel = module.instance.exports as Record<keyof Products, (...numbers: number[]) => void>;
      this.products = {
        linear: (x, w, bias, y, ...sizes) => kernel.linear(x.byteOffset, w.byteOffset, bias ? bias.byteOffset : 0, y.byteOffset, ...sizes),
        dots: (q, keys, scores, ...sizes) => kernel.dots(q.byteOffset, keys.byteOffset, scores.byteOffset, ...sizes),
        weighted: (weights, values, y, ...sizes) => kernel.weighted(weights.byteOffset, values.byteOffset, y.byteOffset, ...sizes),
      };
      this.native = true;
      return memory.buffer as ArrayBuffer;
    } catch {
      return null; // no WebAssembly, none with SIMD, or a policy against it
    }
  }

  get(name: string): Float32Array {
    const found = this.views.get(name);
    if (!found) throw new Error(`no tensor ${name}`);
    return found;
  }

  find(name: string): Float32Array | null {
    return this.views.get(name) ?? null;
  }
}

/** Base64 as bytes. */
export function bytesOf(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
