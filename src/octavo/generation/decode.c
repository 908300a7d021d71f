// Tokens through the GPT of gpt.py: what `model(token, cache)` does, for one stream or many, token by token or a whole
// prompt at once. The slow twin is torch's forward; the tests hold both against each other.
//
// Words: an item is one token of one stream, n of them are decoded together. C width, H heads, G key/value heads, D head
// width. All threads walk through `decode` together; each takes its share, and a function that ends with a barrier leaves
// its results complete for all. Every number of an item is summed in an order that depends on nothing but the item, so a
// stream's text is the same to the bit, alone or beside others.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined __AMX_BF16__ && defined __linux__
#define HAS_BLOCKS
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "../util/parallel.h"

// A vector is one register; `TOGETHER` × `VECTORS` sums fill most of them.
#if defined __AVX512F__
enum { LANES = 16 };
#elif defined __AVX__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
#if defined __AVX__ && !defined __AVX512F__
#define TOGETHER 3
#else
#define TOGETHER 6
#endif
enum { VECTORS = 4, PANEL = VECTORS * LANES, AHEAD = 2048 };
const int lanes = LANES, panel = PANEL;

enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { NO_LAYER, RELU, GELU, GELU_TANH, RELU2, SWIGLU };

// A *word* is what one lane holds: a float32, or what is so many neighbours in the sum, two bfloat16 or four bytes.
typedef int Word;
typedef Word Words __attribute__((vector_size(4 * LANES)));
typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef Words LooseWords __attribute__((aligned(4), may_alias));  // as they lie in memory
typedef Vector LooseVector __attribute__((aligned(4), may_alias));

// What products are of, a word holding 1 << kind numbers. Bytes are whole numbers times a scale: of matrices, keys and
// values they are 128 more than they stand for, unsigned, of what is multiplied with these they are signed, rounded row by
// row. Sums of whole numbers are exact, up to 133,000 of them, so they are the same on every processor.
enum { FLOAT, SHORT, BYTES };

// A matrix lies in panels of PANEL rows, the last filled up with zeros: (panels, steps, PANEL) words, a step for every
// word of columns; of bytes `scales` (rows), filled up alike.
typedef struct { const void *panels; const float *bias, *scales; int rows, columns; } Linear;
typedef struct { const float *weight, *bias; int kind; float eps; } Norm;
typedef struct {
  Norm attention_norm, feed_forward_norm;
  Linear qkv, project, into, out;  // `project` without rows: heads are joined and nothing else
  const float *q_scale, *k_scale;  // (D), of normed queries and keys, or null
  Word *keys, *values;             // of every stream and key/value head; see `key_at` and `value_at`
} Layer;
typedef struct {
  int layers, width, heads, groups, head_width, context, vocabulary;
  int post_norm, residual, qk_norm, turned, activation;  // `turned`: pairs of dimensions that rotary positions turn
  int kind;                                              // of products, keys and values
  int before, buckets;                                   // tokens before an item that its n-grams reach to; see ngrams.py
  float scale, softcap, qk_eps;                          // softcap 0: none
  const float *embedding, *ngrams;                       // (V, C), (before · buckets, C) or null
  const float *positions, *cosines, *sines;              // (context, C) or null, (context, turned) or null
  Norm embedding_norm, norm;
  Linear head;
  const Layer *layer;
  float *x, *normed, *wide, *heads_out;  // (n, …): C, C, the widest product, H·D
  float *scores;                         // (threads, context filled up to whole vectors)
  Word *rounded;                         // (threads, room)
  ptrdiff_t room;
  const int *text;  // (streams, text_width), the tokens at all positions so far
  ptrdiff_t text_width;
} Model;

typedef struct { int token, stream, position; } Item;

// For the other side to compare with its own.
const size_t linear_size = sizeof(Linear), norm_size = sizeof(Norm), layer_size = sizeof(Layer), model_size = sizeof(Model);

static int filled(int n, int to) { return (n + to - 1) / to * to; }
static int steps_of(int columns, int kind) { return filled(columns, 1 << kind) >> kind; }

static unsigned short to_bfloat16(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// e^x to about 1e-7 of it, without branches, so that compilers make vectors of it. What is below −87 becomes 0.
static inline float exponential(float x) {
  const float above = x < -87.0f ? -87.0f : x, kept = above > 88.0f ? 88.0f : above;
  const float whole = (kept * 1.44269504f + 12582912.0f) - 12582912.0f;  // that many doublings: the sum drops the rest
  const float r = (kept - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float power = 1.9875691500e-4f;
  power = power * r + 1.3981999507e-3f;
  power = power * r + 8.3334519073e-3f;
  power = power * r + 4.1665795894e-2f;
  power = power * r + 1.6666665459e-1f;
  power = power * r + 5.0000001201e-1f;
  power = power * r * r + r + 1;
  union { int bits; float value; } doubled = {((int)whole + 127) << 23};
  return x < -87.0f ? 0 : power * doubled.value;
}

// erf x to about 2e-7 (Abramowitz & Stegun 7.1.26, as torch computes it), for the same reason.
static inline float error_function(float x) {
  const float size = x < 0 ? -x : x, t = 1 / (1 + 0.3275911f * size);
  float sum = 1.061405429f;
  sum = sum * t - 1.453152027f;
  sum = sum * t + 1.421413741f;
  sum = sum * t - 0.284496736f;
  sum = sum * t + 0.254829592f;
  const float y = 1 - sum * t * exponential(-size * size);
  return x < 0 ? -y : y;
}

// Of numbers of 16 bits in words: the sum of both products, word by word.
static inline __attribute__((always_inline)) Words add_pairs(Words sum, Words a, Word x) {
#if defined __AVX512BW__
  return sum + (Words)_mm512_madd_epi16((__m512i)a, _mm512_set1_epi32(x));
#elif defined __AVX2__
  return sum + (Words)_mm256_madd_epi16((__m256i)a, _mm256_set1_epi32(x));
#elif defined __SSE2__ && !defined __AVX__
  return sum + (Words)_mm_madd_epi16((__m128i)a, _mm_set1_epi32(x));
#else
  return sum + (a & 0xffff) * (Word)(int16_t)x + (a >> 16) * (x >> 16);
#endif
}

static inline __attribute__((always_inline)) Vector add_product(int kind, Vector sum, Words w, Word x) {
  if (kind == SHORT) {
#ifdef __AVX512BF16__
    return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32(x));
#else
    const union { unsigned bits; float value; } low = {(unsigned)x << 16}, high = {(unsigned)x & 0xffff0000u};
    return sum + (Vector)(w << 16) * low.value + (Vector)(w & (int)0xffff0000) * high.value;
#endif
  }
  if (kind == BYTES) {
#ifdef __AVX512VNNI__
    return (Vector)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(x));
#else
    const unsigned bits = (unsigned)x;
    const Word even = (int)((bits & 0xff0000) << 8) >> 8 & (int)0xffff0000 | (int)(bits << 24) >> 24 & 0xffff;
    const Word odd = x >> 8 & (int)0xffff0000 | (int)(bits << 16) >> 24 & 0xffff;
    return (Vector)add_pairs(add_pairs((Words)sum, w & 0xff00ff, even), w >> 8 & 0xff00ff, odd);
#endif
  }
  const union { Word bits; float value; } u = {x};
  return sum + (Vector)w * u.value;
}

// The one product that matrices, keys and values are read by: for `count` rows of words x, `stride` apart, the sums over
// all steps of `vectors` vectors of w. The vectors of a step are `apart` words from each other. What lies `ahead` words
// further is asked for, if not 0.
static inline __attribute__((always_inline)) void multiply(
    int kind, int count, int vectors, int steps, const Word *w, ptrdiff_t step_size, ptrdiff_t apart, int ahead,
    const Word *x, ptrdiff_t stride, Vector (*sums)[VECTORS]) {
  Vector held[TOGETHER][VECTORS];  // in registers: nothing points to them
  for (int i = 0; i < count; i++)
    for (int v = 0; v < vectors; v++) held[i][v] = sums[i][v];
  for (int step = 0; step < steps; step++, w += step_size) {
    Words read[VECTORS];
    for (int v = 0; ahead && v < vectors; v++) __builtin_prefetch(w + v * apart + ahead, 0, 2);
    for (int v = 0; v < vectors; v++) read[v] = *(const LooseWords *)(w + v * apart);
    for (int i = 0; i < count; i++)
      for (int v = 0; v < vectors; v++)
        held[i][v] = add_product(kind, held[i][v], read[v], x[i * stride + step]);
  }
  for (int i = 0; i < count; i++)
    for (int v = 0; v < vectors; v++) sums[i][v] = held[i][v];
}

// A row of n numbers as signed bytes, the last word filled up with zeros, and two words more: the row's scale, and what
// its products begin with, which takes off again what unsigned bytes are more than they stand for. A row that holds no
// finite number alone has none for a scale.
static void in_bytes(const float *x, int n, Word *to) {
  const int steps = steps_of(n, BYTES);
  int8_t *row = (int8_t *)to;
  int most = 0, total = 0;  // bits of floats without their signs are in the order of these
  for (int k = 0; k < n; k++) {
    int bits;
    memcpy(&bits, x + k, sizeof bits);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  union { int bits; float value; } largest = {most}, scale = {0};
  const int finite = most < 0x7f800000;
  if (finite && largest.value > 1e-30f) {
    const float factor = 127 / largest.value;
    scale.value = largest.value / 127;
    for (int k = 0; k < n; k++) total += row[k] = (int8_t)(int)rintf(x[k] * factor);
  } else {
    memset(row, 0, n);
    if (!finite) scale.value = NAN;
  }
  for (int k = n; k < 4 * steps; k++) row[k] = 0;
  to[steps] = scale.bits;
  to[steps + 1] = -128 * total;
}

// n rows of x as words: themselves, or rounded into this thread's room.
static const Word *words(
    int kind, const Model *m, const float *x, ptrdiff_t stride, int columns, int n, ptrdiff_t *words_stride) {
  *words_stride = kind == FLOAT ? stride : steps_of(columns, kind) + (kind == BYTES ? 2 : 0);
  if (kind == FLOAT) return (const Word *)x;
  Word *room = m->rounded + thread_number() * m->room;
  for (int i = 0; i < n; i++) {
    if (kind == BYTES) {
      in_bytes(x + i * stride, columns, room + i * *words_stride);
      continue;
    }
    unsigned short *row = (unsigned short *)(room + i * *words_stride);
    for (int k = 0; k < columns; k++) row[k] = to_bfloat16(x[i * stride + k]);
    if (columns % 2) row[columns] = 0;
  }
  return room;
}

// What a row's sums begin with, and sums of bytes as the numbers that they stand for, by the scales of both sides.
static inline __attribute__((always_inline)) Vector beginning(int kind, const Word *x, int steps) {
  return kind == BYTES ? (Vector)((Words){0} + x[steps + 1]) : (Vector){0};
}
static inline __attribute__((always_inline)) Vector scaled(Vector sum, Vector scales, const Word *x, int steps) {
  const union { Word bits; float value; } own = {x[steps]};
  return __builtin_convertvector((Words)sum, Vector) * scales * own.value;
}

static inline __attribute__((always_inline)) void tile(
    int kind, int count, const Linear *layer, int first, const Word *x, ptrdiff_t stride, float *y) {
  const int steps = steps_of(layer->columns, kind);
  Vector sums[TOGETHER][VECTORS];
  for (int i = 0; i < count; i++)
    for (int v = 0; v < VECTORS; v++)
      if (layer->bias && kind != BYTES)
        sums[i][v] = *(const LooseVector *)(layer->bias + first + v * LANES);
      else
        sums[i][v] = beginning(kind, x + i * stride, steps);
  const Word *w = (const Word *)layer->panels + (ptrdiff_t)first * steps;
  const int ahead = count == 1 && kind != SHORT ? AHEAD : 0;  // alone, an item waits for memory most of its time
  multiply(kind, count, VECTORS, steps, w, PANEL, LANES, ahead, x, stride, sums);
  if (kind == BYTES)
    for (int i = 0; i < count; i++)
      for (int v = 0; v < VECTORS; v++) {
        const Vector scales = *(const LooseVector *)(layer->scales + first + v * LANES);
        sums[i][v] = scaled(sums[i][v], scales, x + i * stride, steps);
        __asm__("" : "+m"(sums[i][v]));  // compilers would fuse it with the next line for some counts, and round otherwise
        if (layer->bias) sums[i][v] += *(const LooseVector *)(layer->bias + first + v * LANES);
      }
  const int rows = layer->rows - first < PANEL ? layer->rows - first : PANEL;
  for (int i = 0; i < count; i++) {
    if (rows == PANEL)
      for (int v = 0; v < VECTORS; v++) *(LooseVector *)(y + (ptrdiff_t)i * layer->rows + first + v * LANES) = sums[i][v];
    else
      memcpy(y + (ptrdiff_t)i * layer->rows + first, sums[i], rows * sizeof(float));
  }
}

// Where the processor has registers that hold blocks of 16 × 16 words (AMX), they multiply bfloat16 several times as fast.
// A product goes by blocks, or does not, for any number of items, so that its sums are always the same.
#ifdef HAS_BLOCKS
enum { ASK = 0x1023, TILE_DATA = 18 };  // of Linux's arch_prctl: a process has to ask for these registers

static int blocks_allowed(void) {
  static int allowed = -1;
  if (allowed < 0) allowed = syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
  return allowed;
}

static int by_blocks(const Model *m, const Linear *layer) {
  return m->kind == SHORT && layer->columns % (2 * LANES) == 0 && blocks_allowed();
}

// The intrinsics of some compilers do not say what memory they read; what was written before has to be there.
static inline void all_written(void) { __asm__ volatile("" ::: "memory"); }

typedef struct { uint8_t palette, start, unused[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } Blocks;

// Gives this thread blocks: 0 to 4 with `count` rows (sums and items), 5 to 7 with 16 (weights).
static void set_blocks(int count) {
  Blocks set = {.palette = 1};
  for (int i = 0; i < 8; i++) set.row_bytes[i] = 64, set.rows[i] = i < 5 ? count : LANES;
  all_written();
  _tile_loadconfig(&set);
}

// What the thread had before is put back, for torch's own products remember what they set.
static void remember_blocks(Blocks *before) { _tile_storeconfig(before); }
static void put_back_blocks(const Blocks *before) {
  all_written();
  _tile_loadconfig(before);
}

// What `tile` does, for up to 16 items.
static void block(const Linear *layer, int count, int first, const Word *x, ptrdiff_t stride, float *y) {
  const int steps = steps_of(layer->columns, SHORT), rows = layer->rows - first < PANEL ? layer->rows - first : PANEL;
  const Word *w = (const Word *)layer->panels + (ptrdiff_t)first * steps;
  const ptrdiff_t apart = PANEL * sizeof *w;
  float room[LANES * PANEL];
  all_written();
  _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
  if (layer->bias) {  // the same row for all
    const float *bias = layer->bias + first;
    _tile_loadd(0, bias, 0); _tile_loadd(1, bias + LANES, 0);
    _tile_loadd(2, bias + 2 * LANES, 0); _tile_loadd(3, bias + 3 * LANES, 0);
  }
  for (int step = 0; step < steps; step += LANES, w += LANES * PANEL) {
    _tile_loadd(4, x + step, stride * sizeof *x);
    _tile_loadd(5, w, apart);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, w + LANES, apart);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(7, w + 2 * LANES, apart);
    _tile_dpbf16ps(2, 4, 7);
    _tile_loadd(5, w + 3 * LANES, apart);
    _tile_dpbf16ps(3, 4, 5);
  }
  float *out = rows == PANEL ? y + first : room;
  const ptrdiff_t between = (rows == PANEL ? layer->rows : PANEL) * sizeof *out;
  _tile_stored(0, out, between); _tile_stored(1, out + LANES, between);
  _tile_stored(2, out + 2 * LANES, between); _tile_stored(3, out + 3 * LANES, between);
  if (rows < PANEL)
    for (int i = 0; i < count; i++) memcpy(y + (ptrdiff_t)i * layer->rows + first, room + i * PANEL, rows * sizeof *y);
}
#else
static int by_blocks(const Model *m, const Linear *layer) { return (void)m, (void)layer, 0; }
typedef char Blocks;
static void set_blocks(int count) { (void)count; }
static void remember_blocks(Blocks *before) { (void)before; }
static void put_back_blocks(const Blocks *before) { (void)before; }
static void block(const Linear *layer, int count, int first, const Word *x, ptrdiff_t stride, float *y) {
  (void)layer, (void)count, (void)first, (void)x, (void)stride, (void)y;
}
#endif

// y (n, rows) = x (n, columns; rows `stride` apart) · weight + bias. Threads share panels and, of each, tiles of items:
// what is read of a panel serves the items of a tile from registers and all of them from the cache.
static void product(const Model *m, const Linear *layer, const float *x, ptrdiff_t stride, float *y, int n) {
  const int blocks = by_blocks(m, layer), together = blocks ? LANES : TOGETHER;
  const int tiles = (n + together - 1) / together, panels = (layer->rows + PANEL - 1) / PANEL;
  Blocks before;
  int set = 0;
  if (blocks) remember_blocks(&before);
  ptrdiff_t begin, end, between;
  share((ptrdiff_t)tiles * panels, &begin, &end);
  const Word *read = words(m->kind, m, x, stride, layer->columns, n, &between);
  for (ptrdiff_t k = begin; k < end; k++) {
    const int first = k / tiles * PANEL, item = k % tiles * together, count = n - item < together ? n - item : together;
    const Word *rows = read + item * between;
    float *out = y + (ptrdiff_t)item * layer->rows;
    if (blocks) {
      if (count != set) set_blocks(set = count);
      block(layer, count, first, rows, between, out);
      continue;
    }
#define TILE(count) \
  case count: \
    if (m->kind == SHORT) tile(SHORT, count, layer, first, rows, between, out); \
    else if (m->kind == BYTES) tile(BYTES, count, layer, first, rows, between, out); \
    else tile(FLOAT, count, layer, first, rows, between, out); \
    break
    switch (count) {  // each a loop of its own, with its sums in registers
      TILE(1);
      TILE(2);
      TILE(3);
#if TOGETHER == 6
      TILE(4);
      TILE(5);
      TILE(6);
#endif
    }
  }
  if (blocks) put_back_blocks(&before);
  meet();
}

// Sums of n numbers, the same to the bit whatever a vector is: BESIDE of them side by side, then those.
enum { BESIDE = 16 };
typedef float Sums[BESIDE];

static float added_up(Sums sums) {
  for (int half = BESIDE / 2; half; half /= 2)
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  return sums[0];
}

static float sum(const float *x, int n) {
  Sums sums = {0};
  int i = 0;
  for (; i + BESIDE <= n; i += BESIDE)
    for (int j = 0; j < BESIDE; j++) sums[j] += x[i + j];
  for (int j = 0; i + j < n; j++) sums[j] += x[i + j];
  return added_up(sums);
}

static float sum_of_squares(const float *x, float mean, int n) {
  Sums sums = {0};
  int i = 0;
  for (; i + BESIDE <= n; i += BESIDE)
    for (int j = 0; j < BESIDE; j++) sums[j] += (x[i + j] - mean) * (x[i + j] - mean);
  for (int j = 0; i + j < n; j++) sums[j] += (x[i + j] - mean) * (x[i + j] - mean);
  return added_up(sums);
}

static float maximum(const float *x, int n) {
  Sums most;
  for (int j = 0; j < BESIDE; j++) most[j] = -INFINITY;
  int i = 0;
  for (; i + BESIDE <= n; i += BESIDE)
    for (int j = 0; j < BESIDE; j++) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  for (int j = 0; i + j < n; j++) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  for (int j = 1; j < BESIDE; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
  return most[0];
}

static void normalize(const Norm *norm, const float *x, float *y, int n) {
  const float mean = norm->kind == LAYER_NORM ? sum(x, n) / n : 0;
  const float square = norm->kind == NO_NORM ? 0 : sum_of_squares(x, mean, n);
  const float factor = norm->kind == NO_NORM ? 1 : 1 / sqrtf(square / n + norm->eps);
  for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * factor;
  if (norm->weight)
    for (int i = 0; i < n; i++) y[i] *= norm->weight[i];
  if (norm->bias)
    for (int i = 0; i < n; i++) y[i] += norm->bias[i];
}

// n rows of x (n, C), normed into y.
static void normalize_all(const Model *m, const Norm *norm, const float *x, float *y, int n) {
  ptrdiff_t begin, end;
  share(n, &begin, &end);
  for (ptrdiff_t i = begin; i < end; i++) normalize(norm, x + i * m->width, y + i * m->width, m->width);
  meet();
}

static void activate(int kind, float *x, ptrdiff_t n) {
  switch (kind) {
    case RELU:
      for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
      break;
    case RELU2:
      for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] * x[i] : 0;
      break;
    case GELU:
      for (ptrdiff_t i = 0; i < n; i++) x[i] = 0.5f * x[i] * (1 + error_function(x[i] * 0.70710678f));
      break;
    case GELU_TANH:  // (1 + tanh u) / 2 = 1 / (1 + e^−2u)
      for (ptrdiff_t i = 0; i < n; i++)
        x[i] /= 1 + exponential(-1.59576912f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
      break;
  }
}

// Keys of a head, for scores of LANES positions at once: (positions / LANES, steps over D, LANES) words; of bytes two
// steps more, the scales of these positions' keys and of their values. Values, for sums over positions: (steps over
// positions, D filled up to whole vectors) words.
static int key_steps(const Model *m) { return steps_of(m->head_width, m->kind) + (m->kind == BYTES ? 2 : 0); }
static ptrdiff_t key_words(const Model *m) { return (ptrdiff_t)filled(m->context, LANES) * key_steps(m); }
static ptrdiff_t value_words(const Model *m) {
  return (ptrdiff_t)steps_of(m->context, m->kind) * filled(m->head_width, LANES);
}

static void keep(const Model *m, const Layer *layer, Item item, int group, const float *key, const float *value) {
  const int D = m->head_width, kind = m->kind, steps = steps_of(D, kind), s = item.position, part = s % (1 << kind);
  const ptrdiff_t head = (ptrdiff_t)item.stream * m->groups + group, row = filled(D, LANES);
  Word *keys = layer->keys + head * key_words(m) + (ptrdiff_t)(s / LANES) * key_steps(m) * LANES + s % LANES;
  Word *values = layer->values + head * value_words(m) + (s >> kind) * row;
  if (kind == BYTES) {
    ptrdiff_t unused;
    const Word *read = words(kind, m, key, 0, D, 1, &unused);
    for (int step = 0; step < steps; step++) keys[step * LANES] = read[step] ^ (int)0x80808080;
    keys[steps * LANES] = read[steps];
    read = words(kind, m, value, 0, D, 1, &unused);
    for (int i = 0; i < D; i++) ((uint8_t *)(values + i))[part] = ((const uint8_t *)read)[i] ^ 0x80;
    keys[(steps + 1) * LANES] = read[steps];
  } else if (kind == SHORT) {
    for (int i = 0; i < D; i++) {
      ((unsigned short *)(keys + i / 2 * LANES))[i % 2] = to_bfloat16(key[i]);
      ((unsigned short *)(values + i))[part] = to_bfloat16(value[i]);
    }
  } else {
    for (int i = 0; i < D; i++) memcpy(keys + i * LANES, key + i, sizeof(float));
    memcpy(values, value, D * sizeof(float));
  }
}

// One head's query or key, normed, scaled and turned by its position's angles.
static void prepare(const Model *m, const float *scale, float *v, int position) {
  const int D = m->head_width, half = m->turned;
  if (m->qk_norm) {
    const Norm norm = {.weight = scale, .kind = RMS_NORM, .eps = m->qk_eps};
    normalize(&norm, v, v, D);
  }
  const float *cosine = m->cosines + (ptrdiff_t)position * half, *sine = m->sines + (ptrdiff_t)position * half;
  for (int i = 0; i < half; i++) {
    const float first = v[i], second = v[i + half];
    v[i] = first * cosine[i] - second * sine[i];
    v[i + half] = second * cosine[i] + first * sine[i];
  }
}

// Scores of `vectors` × LANES positions for the query q.
static inline __attribute__((always_inline)) void score(
    int kind, int vectors, int steps, const Word *keys, ptrdiff_t apart, int ahead, const Word *q, float *scores) {
  Vector sums[1][VECTORS];
  for (int v = 0; v < vectors; v++) sums[0][v] = beginning(kind, q, steps);
  multiply(kind, 1, vectors, steps, keys, LANES, apart, ahead, q, 0, sums);
  for (int v = 0; kind == BYTES && v < vectors; v++) {
    const Word *scales = keys + v * apart + steps * LANES;
    sums[0][v] = scaled(sums[0][v], *(const LooseVector *)scales, q, steps);
    __builtin_prefetch(scales + ahead, 0, 2);
    __builtin_prefetch(scales + ahead + LANES, 0, 2);
  }
  memcpy(scores, sums[0], vectors * sizeof(Vector));
}

// `vectors` × LANES dimensions of the weighted sum of values.
static inline __attribute__((always_inline)) void mix(
    int kind, int vectors, int steps, const Word *values, int row, int ahead, const Word *weights, float *y) {
  Vector sums[1][VECTORS];
  for (int v = 0; v < vectors; v++) sums[0][v] = beginning(kind, weights, steps);
  multiply(kind, 1, vectors, steps, values, row, LANES, ahead, weights, 0, sums);
  for (int v = 0; kind == BYTES && v < vectors; v++)
    sums[0][v] = scaled(sums[0][v], (Vector){0} + 1, weights, steps);
  memcpy(y, sums[0], vectors * sizeof(Vector));
}

static inline __attribute__((always_inline)) void attend(
    int kind, const Model *m, const Layer *layer, Item item, int head, const float *q, float *y) {
  const int D = m->head_width, steps = steps_of(D, kind), row = filled(D, LANES);
  const int seen = item.position + 1, blocks = (seen + LANES - 1) / LANES;
  const ptrdiff_t kept = (ptrdiff_t)item.stream * m->groups + head / (m->heads / m->groups);
  const ptrdiff_t apart = (ptrdiff_t)key_steps(m) * LANES;
  const Word *keys = layer->keys + kept * key_words(m), *values = layer->values + kept * value_words(m);
  float *scores = m->scores + (ptrdiff_t)thread_number() * filled(m->context, LANES);
  ptrdiff_t unused;
  const Word *read = words(kind, m, q, 0, D, 1, &unused);
  int block = 0;
  for (; block + VECTORS <= blocks; block += VECTORS)
    score(kind, VECTORS, steps, keys + block * apart, apart, key_words(m), read, scores + block * LANES);
  for (; block < blocks; block++)
    score(kind, 1, steps, keys + block * apart, apart, key_words(m), read, scores + block * LANES);
  const float largest = maximum(scores, seen);
  for (int s = 0; s < seen; s++) scores[s] = exponential((scores[s] - largest) * m->scale);
  const float total = sum(scores, seen);
  for (block = 0; kind == BYTES && block < blocks; block++)
    *(LooseVector *)(scores + block * LANES) *= *(const LooseVector *)(keys + block * apart + (steps + 1) * LANES);
  read = words(kind, m, scores, 0, seen, 1, &unused);
  const int over = steps_of(seen, kind);
  float mixed[PANEL];
  for (int i = 0; i < D; i += PANEL, values += PANEL) {
    const int width = D - i < PANEL ? D - i : PANEL;
    switch ((width + LANES - 1) / LANES) {
      case 1: mix(kind, 1, over, values, row, value_words(m), read, mixed); break;
      case 2: mix(kind, 2, over, values, row, value_words(m), read, mixed); break;
      case 3: mix(kind, 3, over, values, row, value_words(m), read, mixed); break;
      case 4: mix(kind, 4, over, values, row, value_words(m), read, mixed); break;
    }
    for (int k = 0; k < width; k++) y[i + k] = mixed[k] / total;
  }
}

static void attention(const Model *m, const Layer *layer, const float *x, const Item *items, int n) {
  const int D = m->head_width, H = m->heads, G = m->groups;
  ptrdiff_t begin, end;
  product(m, &layer->qkv, x, m->width, m->wide, n);
  share((ptrdiff_t)n * (H + G), &begin, &end);
  for (ptrdiff_t k = begin; k < end; k++) {
    const int item = k / (H + G), head = k % (H + G);
    float *row = m->wide + (ptrdiff_t)item * layer->qkv.rows, *v = row + head * D;
    prepare(m, head < H ? layer->q_scale : layer->k_scale, v, items[item].position);
    if (head >= H) keep(m, layer, items[item], head - H, v, v + G * D);
  }
  meet();
  share((ptrdiff_t)n * H, &begin, &end);
  for (ptrdiff_t k = begin; k < end; k++) {
    const int item = k / H, head = k % H;
    const float *q = m->wide + (ptrdiff_t)item * layer->qkv.rows + head * D;
    float *y = m->heads_out + (ptrdiff_t)item * H * D + head * D;
    if (m->kind == BYTES)
      attend(BYTES, m, layer, items[item], head, q, y);
    else if (m->kind == SHORT)
      attend(SHORT, m, layer, items[item], head, q, y);
    else
      attend(FLOAT, m, layer, items[item], head, q, y);
  }
  meet();
}

// Leaves the features of `into`, activated, at the beginning of each row of `wide`.
static void feed_forward(const Model *m, const Layer *layer, const float *x, int n) {
  ptrdiff_t begin, end;
  product(m, &layer->into, x, m->width, m->wide, n);
  if (m->activation == SWIGLU) {  // the matrix holds the gates first, then what they let through
    const int features = layer->into.rows / 2;
    share(n, &begin, &end);
    for (ptrdiff_t item = begin; item < end; item++) {
      float *gate = m->wide + item * layer->into.rows, *through = gate + features;
      for (int i = 0; i < features; i++) gate[i] *= through[i] / (1 + exponential(-gate[i]));
    }
  } else {
    share((ptrdiff_t)n * layer->into.rows, &begin, &end);
    activate(m->activation, m->wide + begin, end - begin);
  }
  meet();
}

// x joined with a layer's output, which `layer` makes of `inner`; normed after it or, by `normed`, before.
static void join(const Model *m, const Linear *layer, const float *inner, ptrdiff_t stride, const Norm *norm, int n) {
  ptrdiff_t begin, end;
  if (layer->rows) product(m, layer, inner, stride, m->normed, n);
  const float *y = layer->rows ? m->normed : inner;
  share((ptrdiff_t)n * m->width, &begin, &end);
  for (ptrdiff_t i = begin; i < end; i++) m->x[i] = m->residual ? m->x[i] + y[i] : y[i];
  meet();
  if (m->post_norm) normalize_all(m, norm, m->x, m->x, n);
}

static const float *normed(const Model *m, const Norm *norm, int n) {
  if (m->post_norm) return m->x;
  normalize_all(m, norm, m->x, m->normed, n);
  return m->normed;
}

// For each n the vector of the item's last n tokens; products wrap around at 64 bits, as in ngrams.py.
static void add_ngrams(const Model *m, Item item, float *x) {
  uint64_t hashed = (uint64_t)item.token + 1;
  for (int back = 1; back <= m->before; back++) {
    const int at = item.position - back;
    hashed = hashed * 1000003 + (at < 0 ? 0 : m->text[item.stream * m->text_width + at] + 1);
    const int64_t rest = ((int64_t)(hashed * 0x9E3779B97F4A7C15) >> 32) % m->buckets;
    const ptrdiff_t row = (rest < 0 ? rest + m->buckets : rest) + (ptrdiff_t)(back - 1) * m->buckets;
    for (int k = 0; k < m->width; k++) x[k] += m->ngrams[row * m->width + k];
  }
}

typedef struct {
  const Model *model;
  const Item *items;
  int n, wanted;
  float *logits;
} Call;

static void work(void *given) {
  const Call *call = given;
  const Model *m = call->model;
  const Item *items = call->items;
  const int C = m->width, n = call->n, wanted = call->wanted;
  ptrdiff_t begin, end;
  share(n, &begin, &end);
  for (ptrdiff_t i = begin; i < end; i++) {
    float *x = m->x + i * C;
    memcpy(x, m->embedding + (ptrdiff_t)items[i].token * C, C * sizeof *x);
    add_ngrams(m, items[i], x);
    if (m->positions)
      for (int k = 0; k < C; k++) x[k] += m->positions[(ptrdiff_t)items[i].position * C + k];
    normalize(&m->embedding_norm, x, x, C);
  }
  meet();
  for (int i = 0; i < m->layers; i++) {
    const Layer *layer = m->layer + i;
    attention(m, layer, normed(m, &layer->attention_norm, n), items, n);
    join(m, &layer->project, m->heads_out, m->heads * m->head_width, &layer->attention_norm, n);
    if (m->activation == NO_LAYER) continue;
    feed_forward(m, layer, normed(m, &layer->feed_forward_norm, n), n);
    const int row = layer->into.rows;
    join(m, &layer->out, m->wide, row, &layer->feed_forward_norm, n);
  }
  const ptrdiff_t before = (ptrdiff_t)(n - wanted) * C;
  normalize_all(m, &m->norm, m->x + before, m->normed, wanted);
  product(m, &m->head, m->normed, C, call->logits, wanted);
  share((ptrdiff_t)wanted * m->head.rows, &begin, &end);
  if (m->softcap > 0)
    for (ptrdiff_t i = begin; i < end; i++)  // rows after the vocabulary's are no logits
      if (i % m->head.rows < m->vocabulary) call->logits[i] = m->softcap * tanhf(call->logits[i] / m->softcap);
}

// The n items in turn; logits (wanted, V) of what follows the last `wanted` of them. Of a stream the caches hold what
// stands before its items, which may be several, in order.
void decode(const Model *m, const Item *items, int n, int wanted, float *logits, int threads) {
  Call call = {m, items, n, wanted, logits};
  together(threads, work, &call);
}
