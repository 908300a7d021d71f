// Causal attention from the projected queries, keys and values to the joined heads, and its gradients, in float32.
//
// What attention.py does with torch: heads split, queries and keys normed (qk_norm) and turned (rotary positions),
// softmax(scale · q · kᵀ) · v below the diagonal, some weights of the softmax dropped, heads joined. The tests hold both
// against each other. For contexts of some hundred positions a head's whole score matrix fits into the cache, so nothing
// is done in parts. Backward, the scores are computed anew: from the forward pass only each query's highest score and
// 1 / Σ exp are kept.
//
// B sequences, T positions, H heads, G key/value heads, D head width. qkv and its gradient: (B, T, (H + 2G)·D), y and its
// gradient: (B, T, H·D), both float32 or both bfloat16; kept: (B, H, 2, T). Inside all is float32, D and T are rounded up to
// whole vectors and filled with zeros.

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../util/parallel.h"

// A vector is one register: wider ones are taken apart, and what is left of them is slower than no kernel at all.
#if defined __AVX512F__
enum { LANES = 16 };
#define PLACES 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif defined __AVX__
enum { LANES = 8 };
#define PLACES 0, 1, 2, 3, 4, 5, 6, 7
#else
enum { LANES = 4 };
#define PLACES 0, 1, 2, 3
#endif
// Vectors beside each other whose sums, of four rows, stay in registers: there are 32, or else 16.
#if defined __AVX512F__ || defined __aarch64__
enum { COLUMNS = 4 };
#else
enum { COLUMNS = 3 };
#endif
typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int Integers __attribute__((vector_size(4 * LANES)));
typedef unsigned Bits __attribute__((vector_size(4 * LANES)));

typedef struct {
  int batch, length, heads, groups, head_width, turned, qk_norm;  // `turned`: pairs that rotary positions turn, or 0
  int short_numbers;                                              // qkv, y and their gradients are bfloat16
  unsigned dropped;                                               // of 2³² weights so many are dropped
  float scale, eps, kept_grow;                                    // kept_grow: what those that stay are multiplied by
  uint64_t seed;
  const float *cosines, *sines;  // (T, turned)
} Shape;

const size_t shape_size = sizeof(Shape);  // for the other side to compare with its own

// One head's arrays. Scores stand with a row for each key, so that LANES queries go side by side through the softmax.
typedef struct {
  float *q, *k, *v, *dy, *dq, *dk, *dv;  // (T, D)
  float *qt, *dyt;                       // (D, T)
  float *weights, *gradients;            // (T, T), read and written from the diagonal on
  float *q_factor, *k_factor;            // (T,), what normalizing multiplied by
  float *highest, *inverse;              // (T,), each query's highest score, and 1 / Σ exp
} Room;

static int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

static Vector load(const float *x) {
  Vector v;
  memcpy(&v, x, sizeof v);
  return v;
}

static void store(float *x, Vector v) { memcpy(x, &v, sizeof v); }

static Vector maximum(Vector a, Vector b) {
  const Integers greater = a > b;
  return (Vector)(((Integers)a & greater) | ((Integers)b & ~greater));
}

// e to the x ≤ 0, to a few units in the last place: 2 to a whole number times a polynomial for the rest. What is below −64
// becomes 0: products with it would be denormal numbers, for which some processors take a hundred times as long.
static Vector exponential(Vector x) {
  const Vector least = {0}, half = least + 12582912.0f;  // adding 1.5 · 2²³ rounds to a whole number
  const Integers counts = x > least - 64.0f;
  x = maximum(x, least - 64.0f);
  const Vector whole = x * 1.44269504f + half - half;
  const Vector r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vector p = least + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return (Vector)(((Integers)p + (__builtin_convertvector(whole, Integers) << 23)) & counts);
}

// All bits set where dropout keeps the weights of LANES queries, from the first of them on, for a key. A weight's fate is
// a hash of its place (the 32-bit finalizer of Wellons 2018) and of the head's `salt`, so that both ways find the same.
static Integers spared(const Shape *s, uint64_t salt, int key, int query) {
  Bits x = {PLACES};
  x += (unsigned)(key * s->length + query) + (unsigned)salt;
  x = (x ^ x >> 16) * 0x7feb352du ^ (unsigned)(salt >> 32);
  x = (x ^ x >> 15) * 0x846ca68bu;
  return (x ^ x >> 16) >= s->dropped;
}

// Of a head in all the batch (splitmix64).
static uint64_t salt_of(uint64_t seed, int head) {
  uint64_t z = seed + 0x9e3779b97f4a7c15u * (uint64_t)(head + 1);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// `rows` × LANES·`columns` numbers of c = a · b (or c + a · b) over `depth`, in registers; a has any strides.
static inline __attribute__((always_inline)) void tile(const float *a, int a_row, int a_column, const float *b, int b_width,
                                                       float *c, int c_width, int depth, int add, const int rows,
                                                       const int columns) {
  Vector sums[4][COLUMNS];
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) sums[i][j] = add ? load(c + i * c_width + j * LANES) : (Vector){0};
  for (int k = 0; k < depth; k++) {
    for (int j = 0; j < columns; j++) {
      const Vector right = load(b + k * b_width + j * LANES);
      for (int i = 0; i < rows; i++) sums[i][j] += a[i * a_row + k * a_column] * right;
    }
  }
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) store(c + i * c_width + j * LANES, sums[i][j]);
}

// Four rows, `n` (whole vectors) columns wide.
static void four_rows(const float *a, int a_row, int a_column, const float *b, int b_width, float *c, int c_width, int depth,
                      int n, int add) {
  int j = 0;
  for (; j + COLUMNS * LANES <= n; j += COLUMNS * LANES)
    tile(a, a_row, a_column, b + j, b_width, c + j, c_width, depth, add, 4, COLUMNS);
  for (; j + 2 * LANES <= n; j += 2 * LANES) tile(a, a_row, a_column, b + j, b_width, c + j, c_width, depth, add, 4, 2);
  for (; j < n; j += LANES) tile(a, a_row, a_column, b + j, b_width, c + j, c_width, depth, add, 4, 1);
}

// A head's `head_width` numbers from place `at` of qkv or y on, and back.
static void read_row(const Shape *s, const void *from, ptrdiff_t at, float *restrict to) {
  if (!s->short_numbers) {
    memcpy(to, (const float *)from + at, sizeof(float) * s->head_width);
    return;
  }
  const unsigned short *x = (const unsigned short *)from + at;
  for (int i = 0; i < s->head_width; i++) {
    const unsigned bits = (unsigned)x[i] << 16;
    memcpy(to + i, &bits, sizeof bits);
  }
}

static void write_row(const Shape *s, const float *restrict from, void *to, ptrdiff_t at) {
  if (!s->short_numbers) {
    memcpy((float *)to + at, from, sizeof(float) * s->head_width);
    return;
  }
  unsigned short *x = (unsigned short *)to + at;
  for (int i = 0; i < s->head_width; i++) {  // to the nearest, halves to even; what is not a number stays none
    unsigned bits;
    memcpy(&bits, from + i, sizeof bits);
    const unsigned rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    x[i] = (unsigned short)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
  }
}

static void transpose(const float *restrict x, int rows, int columns, float *restrict y) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) y[j * rows + i] = x[i * columns + j];
}

// One head's rows out of (B, T, …); with `factor` normalized and turned, as queries and keys are.
static void take(const Shape *s, const void *from, ptrdiff_t begin, int stride, float *to, float *factor) {
  const int width = s->head_width, room = padded(width), pairs = s->turned;
  for (int t = 0; t < s->length; t++) {
    float *y = to + t * room;
    read_row(s, from, begin + (ptrdiff_t)t * stride, y);
    if (!factor) continue;
    factor[t] = 1;
    if (s->qk_norm) {
      float square = 0;
      for (int i = 0; i < width; i++) square += y[i] * y[i];
      factor[t] = 1 / sqrtf(square / width + s->eps);
      for (int i = 0; i < width; i++) y[i] *= factor[t];
    }
    const float *cosine = s->cosines + t * pairs, *sine = s->sines + t * pairs;
    for (int i = 0; i < pairs; i++) {
      const float first = y[i], second = y[i + pairs];
      y[i] = first * cosine[i] - second * sine[i];
      y[i + pairs] = second * cosine[i] + first * sine[i];
    }
  }
}

// The way back: the gradient of what `take` gave, turned back and through the norm, into (B, T, …).
static void give(const Shape *s, const float *taken, float *gradient, const float *factor, void *to, ptrdiff_t begin,
                 int stride) {
  const int width = s->head_width, room = padded(width), pairs = s->turned;
  for (int t = 0; t < s->length; t++) {
    float *g = gradient + t * room;
    const float *y = taken + t * room;
    if (factor && s->qk_norm) {  // turning changes no length and no angle, so the norm's part can be taken first
      float along = 0;
      for (int i = 0; i < width; i++) along += g[i] * y[i];
      along /= width;
      for (int i = 0; i < width; i++) g[i] = (g[i] - y[i] * along) * factor[t];
    }
    if (factor) {
      const float *cosine = s->cosines + t * pairs, *sine = s->sines + t * pairs;
      for (int i = 0; i < pairs; i++) {
        const float first = g[i], second = g[i + pairs];
        g[i] = first * cosine[i] + second * sine[i];
        g[i + pairs] = second * cosine[i] - first * sine[i];
      }
    }
    write_row(s, g, to, begin + (ptrdiff_t)t * stride);
  }
}

// (T, T) from the diagonal on: each of the rows of x (T, D) times all columns of y (D, T) that may look at it.
static void products(const Shape *s, const float *x, const float *y, float *to) {
  const int room = padded(s->head_width), wide = padded(s->length);
  for (int j = 0; j < wide; j += 4) {
    const int first = j / LANES * LANES;
    four_rows(x + j * room, room, 1, y + first, wide, to + (ptrdiff_t)j * wide + first, wide, room, wide - first, 0);
  }
}

// In the block of LANES queries from `first` on: what keys behind a query have there.
static void mask(float *at, int wide, int first, float value) {
  for (int j = 0; j < LANES; j++)
    for (int t = 0; t < j; t++) at[(ptrdiff_t)(first + j) * wide + first + t] = value;
}

static void forward_head(const Shape *s, const Room *r, void *y, ptrdiff_t head, float *own, uint64_t salt) {
  const int room = padded(s->head_width), wide = padded(s->length), joined = s->heads * s->head_width;
  products(s, r->k, r->qt, r->weights);
  for (int first = 0; first < wide; first += LANES) {
    const int keys = first + LANES;
    float *column = r->weights + first;
    mask(r->weights, wide, first, -INFINITY);
    Vector highest = load(column), total = {0};
    for (int j = 1; j < keys; j++) highest = maximum(load(column + (ptrdiff_t)j * wide), highest);
    for (int j = 0; j < keys; j++) {
      const Vector e = exponential((load(column + (ptrdiff_t)j * wide) - highest) * s->scale);
      store(column + (ptrdiff_t)j * wide, s->dropped ? (Vector)((Integers)e & spared(s, salt, j, first)) : e);
      total += e;
    }
    store(r->highest + first, highest);
    store(r->inverse + first, 1 / total);
  }
  memcpy(own, r->highest, sizeof(float) * s->length);
  memcpy(own + s->length, r->inverse, sizeof(float) * s->length);
  for (int t = 0; t < s->length; t += 4)
    four_rows(r->weights + t, 1, wide, r->v, room, r->dy + t * room, room, t + 4, room, 0);
  for (int t = 0; t < s->length; t++) {
    float *mixed = r->dy + t * room;
    for (int i = 0; i < s->head_width; i++) mixed[i] *= r->inverse[t] * s->kept_grow;
    write_row(s, mixed, y, head + (ptrdiff_t)t * joined);
  }
}

static void backward_head(const Shape *s, const Room *r, const float *own, uint64_t salt) {
  const int room = padded(s->head_width), wide = padded(s->length);
  memcpy(r->highest, own, sizeof(float) * s->length);
  memcpy(r->inverse, own + s->length, sizeof(float) * s->length);
  products(s, r->k, r->qt, r->weights);
  products(s, r->v, r->dyt, r->gradients);
  for (int first = 0; first < wide; first += LANES) {
    const int keys = first + LANES;
    float *weights = r->weights + first, *gradients = r->gradients + first;
    const Vector highest = load(r->highest + first), inverse = load(r->inverse + first);
    Vector along = {0};
    mask(r->weights, wide, first, -INFINITY);
    for (int j = 0; j < keys; j++) {
      const ptrdiff_t at = (ptrdiff_t)j * wide;
      const Vector weight = exponential((load(weights + at) - highest) * s->scale) * inverse;
      if (s->dropped) {  // a dropped weight is remembered by its sign
        const Integers keep = spared(s, salt, j, first);
        const Vector gradient = (Vector)((Integers)load(gradients + at) & keep) * s->kept_grow;
        store(gradients + at, gradient);
        store(weights + at, (Vector)(((Integers)weight & keep) | ((Integers)-weight & ~keep)));
        along += weight * gradient;
      } else {
        store(weights + at, weight);
        along += weight * load(gradients + at);
      }
    }
    for (int j = 0; j < keys; j++) {
      const ptrdiff_t at = (ptrdiff_t)j * wide;
      const Vector signed_weight = load(weights + at), weight = maximum(signed_weight, -signed_weight);
      store(gradients + at, weight * (load(gradients + at) - along) * s->scale);
      if (s->dropped) store(weights + at, maximum(signed_weight, (Vector){0}) * s->kept_grow);
    }
  }
  for (int t = 0; t < s->length; t += 4) {
    const int first = t / LANES * LANES, after = wide - first;  // the queries that may look at these keys
    const ptrdiff_t row = (ptrdiff_t)t * wide + first;
    four_rows(r->gradients + t, 1, wide, r->k, room, r->dq + t * room, room, t + 4, room, 0);
    four_rows(r->gradients + row, wide, 1, r->q + first * room, room, r->dk + t * room, room, after, room, 1);
    four_rows(r->weights + row, wide, 1, r->dy + first * room, room, r->dv + t * room, room, after, room, 1);
  }
}

// Memory for one head, zero all over; the caller frees what is returned.
static float *furnish(const Shape *s, Room *r) {
  const size_t wide = padded(s->length), room = padded(s->head_width), flat = wide * room;
  float *all = calloc(9 * flat + 2 * wide * wide + 4 * wide, sizeof(float)), *next = all;
  if (!all) return NULL;
  float **arrays[] = {&r->q, &r->k, &r->v, &r->dy, &r->dq, &r->dk, &r->dv, &r->qt, &r->dyt};
  for (int i = 0; i < 9; i++, next += flat) *arrays[i] = next;
  r->weights = next, r->gradients = next + wide * wide;
  r->q_factor = next + 2 * wide * wide, r->k_factor = r->q_factor + wide;
  r->highest = r->k_factor + wide, r->inverse = r->highest + wide;
  return all;
}

// One key/value head g of sequence b, with the query heads that share it; backward where dqkv is given.
static void group(const Shape *s, const Room *r, const void *qkv, void *y, float *kept, void *dqkv, int b, int g) {
  const int width = s->head_width, share = s->heads / s->groups, stride = (s->heads + 2 * s->groups) * width;
  const int room = padded(width), wide = padded(s->length);
  const ptrdiff_t begin = (ptrdiff_t)b * s->length * stride;
  const ptrdiff_t key = begin + (s->heads + g) * width, value = key + s->groups * width;
  take(s, qkv, key, stride, r->k, r->k_factor);
  take(s, qkv, value, stride, r->v, NULL);
  if (dqkv) {
    memset(r->dk, 0, sizeof(float) * wide * room);
    memset(r->dv, 0, sizeof(float) * wide * room);
  }
  for (int h = g * share; h < (g + 1) * share; h++) {
    const ptrdiff_t head = (ptrdiff_t)b * s->length * s->heads * width + h * width;
    float *own = kept + ((ptrdiff_t)b * s->heads + h) * 2 * s->length;
    const uint64_t salt = salt_of(s->seed, b * s->heads + h);
    take(s, qkv, begin + h * width, stride, r->q, r->q_factor);
    transpose(r->q, wide, room, r->qt);
    if (!dqkv) {
      forward_head(s, r, y, head, own, salt);
      continue;
    }
    take(s, y, head, s->heads * width, r->dy, NULL);
    transpose(r->dy, wide, room, r->dyt);
    backward_head(s, r, own, salt);
    give(s, r->q, r->dq, r->q_factor, dqkv, begin + h * width, stride);
  }
  if (dqkv) {
    give(s, r->k, r->dk, r->k_factor, dqkv, key, stride);
    give(s, r->v, r->dv, NULL, dqkv, value, stride);
  }
}

typedef struct {
  const Shape *shape;
  const void *qkv;
  void *y, *dqkv;
  float *kept;
  atomic_int short_of_memory;
} Task;

static void work(void *given) {
  Task *t = given;
  const Shape *s = t->shape;
  Room room;
  float *memory = furnish(s, &room);
  if (!memory) atomic_store(&t->short_of_memory, 1);
  for (ptrdiff_t i, end; memory && hand_out((ptrdiff_t)s->batch * s->groups, 1, &i, &end);)
    group(s, &room, t->qkv, t->y, t->kept, t->dqkv, i / s->groups, i % s->groups);
  free(memory);
}

// Forward: fills y and kept. Backward (dqkv given): y holds its gradient, kept what forward put there; fills dqkv.
// Returns 0 when memory is short.
int attend(const Shape *s, const void *qkv, void *y, float *kept, void *dqkv, int threads) {
  const int tasks = s->batch * s->groups;
  Task task = {.shape = s, .qkv = qkv, .y = y, .kept = kept, .dqkv = dqkv};
  together(threads < tasks ? threads : tasks, work, &task);
  return !atomic_load(&task.short_of_memory);
}
