// The worked examples of reports B, C and E on their fixed numbers.

export type Matrix = number[][];

export const B: Matrix = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]];

// torch.manual_seed(42): Q = rand(7, 5), then K = rand(7, 5).
export const C_Q: Matrix = [[0.8822693, 0.915004, 0.3828638, 0.9593056, 0.3904482], [0.6008953, 0.2565725, 0.7936413, 0.9407715, 0.1331859], [0.9345981, 0.5935796, 0.8694044, 0.5677153, 0.7410941], [0.4294045, 0.8854429, 0.5739045, 0.26658, 0.6274492], [0.2696317, 0.4413636, 0.2969208, 0.8316855, 0.1053149], [0.2694948, 0.3588126, 0.1993638, 0.5471916, 0.006160438], [0.9515545, 0.07526588, 0.8860137, 0.5832096, 0.3376477]];
export const C_K: Matrix = [[0.808975, 0.5779254, 0.9039817, 0.5546598, 0.3423134], [0.6343418, 0.3644103, 0.7104288, 0.9464111, 0.7890298], [0.2814137, 0.7886323, 0.5894631, 0.7539175, 0.1952475], [0.005045772, 0.3068197, 0.1164886, 0.9102694, 0.6440157], [0.7071068, 0.6581306, 0.491302, 0.8913041, 0.1447432], [0.5314819, 0.1587299, 0.654176, 0.3278089, 0.6532081], [0.3958293, 0.9146959, 0.203649, 0.201801, 0.201783]];

export const E: Matrix = [[0.088, 0.2976, 0.3876], [0.3238, 0.8666, 0.7062], [0.9651, 0.3739, 0.6863]];

/** Scores (T, T) of rows Q and K; `causal`: what comes later is −∞. */
export function scores(q: Matrix, k: Matrix, scale: number, causal: boolean): Matrix {
  return q.map((a, t) => k.map((b, s) => (causal && s > t ? -Infinity : scale * a.reduce((sum, x, d) => sum + x * b[d], 0))));
}

export function masked(rows: Matrix): Matrix {
  return rows.map((row, t) => row.map((x, s) => (s > t ? -Infinity : x)));
}

export function softmaxRows(rows: Matrix): Matrix {
  return rows.map((row) => {
    const most = Math.max(...row), e = row.map((x) => Math.exp(x - most)), sum = e.reduce((a, b) => a + b, 0);
    return e.map((x) => x / sum);
  });
}
