/* Matrix products for the page, in WebAssembly SIMD. All arrays lie in the memory that the page gives. */

#include <wasm_simd128.h>

static float sum_of(v128_t v) {
  return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1) + wasm_f32x4_extract_lane(v, 2) +
         wasm_f32x4_extract_lane(v, 3);
}

/* y (rows, out) = x (rows, in) · w (out, in)ᵀ + bias (out); bias may be null. Four rows share each weight that is read.
 */
__attribute__((export_name("linear"))) void linear(const float *x, const float *w, const float *bias, float *y,
                                                   int rows, int in, int out) {
  const int even = in & ~3;
  int row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float *a = x + row * in, *b = a + in, *c = b + in, *d = c + in;
    for (int o = 0; o < out; o++) {
      const float *own = w + o * in;
      v128_t sa = wasm_f32x4_splat(0), sb = sa, sc = sa, sd = sa;
      for (int i = 0; i < even; i += 4) {
        const v128_t weight = wasm_v128_load(own + i);
        sa = wasm_f32x4_add(sa, wasm_f32x4_mul(weight, wasm_v128_load(a + i)));
        sb = wasm_f32x4_add(sb, wasm_f32x4_mul(weight, wasm_v128_load(b + i)));
        sc = wasm_f32x4_add(sc, wasm_f32x4_mul(weight, wasm_v128_load(c + i)));
        sd = wasm_f32x4_add(sd, wasm_f32x4_mul(weight, wasm_v128_load(d + i)));
      }
      float ta = sum_of(sa), tb = sum_of(sb), tc = sum_of(sc), td = sum_of(sd);
      for (int i = even; i < in; i++) {
        ta += own[i] * a[i], tb += own[i] * b[i], tc += own[i] * c[i], td += own[i] * d[i];
      }
      const float more = bias ? bias[o] : 0;
      float *to = y + row * out + o;
      to[0] = ta + more, to[out] = tb + more, to[2 * out] = tc + more, to[3 * out] = td + more;
    }
  }
  for (; row < rows; row++) {
    const float *a = x + row * in;
    for (int o = 0; o < out; o++) {
      const float *own = w + o * in;
      v128_t first = wasm_f32x4_splat(0), second = first;
      int i = 0;
      for (; i + 8 <= even; i += 8) {
        first = wasm_f32x4_add(first, wasm_f32x4_mul(wasm_v128_load(own + i), wasm_v128_load(a + i)));
        second = wasm_f32x4_add(second, wasm_f32x4_mul(wasm_v128_load(own + i + 4), wasm_v128_load(a + i + 4)));
      }
      for (; i < even; i += 4) {
        first = wasm_f32x4_add(first, wasm_f32x4_mul(wasm_v128_load(own + i), wasm_v128_load(a + i)));
      }
      float total = sum_of(wasm_f32x4_add(first, second));
      for (; i < in; i++) total += own[i] * a[i];
      y[row * out + o] = total + (bias ? bias[o] : 0);
    }
  }
}
