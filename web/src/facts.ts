// What a page knows: written by octavo/explain/, read here. Shapes: L layers, T positions, C width, H heads, G key/value
// heads, D head width, F features, V vocabulary.

export interface Shape {
  layers: number;
  width: number;
  heads: number;
  kv_heads: number;
  head_width: number;
  context: number;
  vocab: number;
  features: number;
}

export interface Norm {
  kind: "none" | "layer" | "plain" | "rms";
  eps: number;
}

export interface Config extends Shape {
  norm: Norm;
  norm_place: "pre" | "post";
  embedding_norm: boolean;
  final_norm: boolean;
  residual: boolean;
  scale: number;
  qk_norm_eps: number | null;
  feed_forward: "none" | "relu" | "gelu" | "gelu_tanh" | "relu2" | "swiglu";
  ngrams: { buckets: number; before: number } | null;
  tied: boolean;
  softcap: number | null;
  positions: string;
  counts: { orders: number; recent: number } | null;
}

export interface TensorEntry {
  name: string;
  shape: number[];
  type: "float32" | "float16" | "int8" | "uint8" | "uint16" | "int32";
  offset: number;
  scales?: number;
}

export interface TokenizerFacts {
  kind: "char" | "byte" | "bpe" | "gpt2" | "word" | "symbols";
  names: string[];
  start: number | null;
  end: number | null;
  special: number[];
  unknown: number | null;
  characters?: string;
  bytes?: string[];
  merges?: [number, number, number][];
  words?: string[];
  lowercase?: boolean;
  lines?: "fold" | "keep";
  symbols?: string[] | null;
  size?: number;
  spaced?: boolean;
}

export interface Interval {
  mean: number;
  low: number;
  high: number;
}

export interface Measured {
  tokens: number;
  rows: number;
  loss: number;
  unit: string;
  packing: Interval;
  parts: Record<string, Interval>;
}

export interface HeadScore {
  layer: number;
  head: number;
  previous: number;
  same: number;
  induction: number;
  name: string | null;
}

export interface Probe {
  tokens: string[];
  attention: string;
  lens: [string, number][][];
  loss: number;
}

export interface Chapter {
  step: number;
  loss: number;
  probes: Probe[];
  sample: string;
}

export interface FloorText {
  tokens: string[];
  best: number[];
  model: number[];
}

export interface Facts {
  format: number;
  octavo: string;
  title: string;
  parameters: number;
  step: number;
  weights: "float32" | "float16" | "int8";
  config: Config;
  tensors: TensorEntry[];
  bytes: number;
  tokenizer: TokenizerFacts;
  text: string;
  sampling: { temperature: number; top_k: number | null; top_p: number | null; min_p: number | null };
  left_out: string[];
  measured: Measured | null;
  heads: HeadScore[];
  story: Chapter[];
  floor: FloorText[];
}
