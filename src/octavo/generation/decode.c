// One token through the GPT of gpt.py, in single precision: what `model(token, cache)` does for one stream.
//
// The slow twin is torch's forward; the tests hold both against each other. Words: C width, H heads, G key/value heads,
// D head width, S positions looked at. Matrices are (rows, columns), a row for each output, as torch keeps them.
// All threads walk through `decode` together; each takes its share of the rows of every matrix.

#include <math.h>
#include <stddef.h>
#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { NO_LAYER, RELU, GELU, GELU_TANH, RELU2, SWIGLU };

typedef struct { const float *weight, *bias; int rows, columns; } Linear;
typedef struct { const float *weight, *bias; int kind; float eps; } Norm;
typedef struct {
  Norm attention_norm, feed_forward_norm;
  Linear qkv, project, into, out;  // `project` without rows: heads are joined and nothing else
  float *keys, *values;            // (G, context, D) each
} Layer;
typedef struct {
  int layers, width, heads, groups, head_width, context, vocabulary;
  int post_norm, residual, qk_norm, turned, activation;  // `turned`: pairs of dimensions that rotary positions turn
  float scale, softcap;                                  // softcap 0: none
  const float *embedding, *positions, *cosines, *sines;  // (V, C), (context, C) or null, (context, turned) or null
  Norm embedding_norm, norm;
  Linear head;
  const Layer *layer;
  float *x, *normed, *wide, *heads_out, *scores;  // C, C, the widest row, H·D, H·context
} Model;

static void share(int n, int *begin, int *end) {
  int threads = omp_get_num_threads(), thread = omp_get_thread_num();
  *begin = (int)((ptrdiff_t)n * thread / threads);
  *end = (int)((ptrdiff_t)n * (thread + 1) / threads);
}

// Sixteen numbers at once; compilers cut this to what the processor has.
typedef float Vector __attribute__((vector_size(64)));

static Vector load(const float *x) {
  Vector v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

static float sum(Vector v) {
  // halves, not one by one: with narrow matrices this is a third of the work
  typedef float Half __attribute__((vector_size(32)));
  typedef float Quarter __attribute__((vector_size(16)));
  union { Vector all; Half half[2]; } u = {v};
  union { Half all; Quarter half[2]; } h = {u.half[0] + u.half[1]};
  const Quarter q = h.half[0] + h.half[1];
  return (q[0] + q[2]) + (q[1] + q[3]);
}

static float dot(const float *a, const float *b, int n) {
  Vector sums = {0};
  int i = 0;
  for (; i + 16 <= n; i += 16) sums += load(a + i) * load(b + i);
  float rest = 0;
  for (; i < n; i++) rest += a[i] * b[i];
  return sum(sums) + rest;
}

// y[begin…end] of weight · x + bias. Memory's pace is what limits it: four rows at a time, so that x is read once for them
// and their sums do not wait for each other, and the rows to come are asked for in time.
static void rows(const Linear *layer, const float *x, float *y, int begin, int end) {
  enum { AHEAD = 2048 };
  const int n = layer->columns;
  int row = begin;
  for (; row + 4 <= end; row += 4) {
    const float *w = layer->weight + (ptrdiff_t)row * n;
    Vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int i = 0;
    for (int k = 0; k < 4 * n; k += 16) __builtin_prefetch(w + AHEAD + k);
    for (; i + 16 <= n; i += 16) {
      const Vector v = load(x + i);
      
      s0 += load(w + i) * v;
      s1 += load(w + n + i) * v;
      s2 += load(w + 2 * n + i) * v;
      s3 += load(w + 3 * n + i) * v;
    }
    y[row] = sum(s0), y[row + 1] = sum(s1), y[row + 2] = sum(s2), y[row + 3] = sum(s3);
    for (; i < n; i++)
      for (int k = 0; k < 4; k++) y[row + k] += w[k * n + i] * x[i];
  }
  for (; row < end; row++) y[row] = dot(layer->weight + (ptrdiff_t)row * n, x, n);
  if (layer->bias)
    for (row = begin; row < end; row++) y[row] += layer->bias[row];
}

static void normalize(const Norm *norm, const float *x, float *y, int n) {
  float mean = 0, square = 0;
  if (norm->kind == LAYER_NORM) {
#pragma omp simd reduction(+ : mean)
    for (int i = 0; i < n; i++) mean += x[i];
    mean /= n;
  }
#pragma omp simd reduction(+ : square)
  for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
  const float factor = norm->kind == NO_NORM ? 1 : 1 / sqrtf(square / n + norm->eps);
  for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * factor;
  if (norm->weight)
    for (int i = 0; i < n; i++) y[i] *= norm->weight[i];
  if (norm->bias)
    for (int i = 0; i < n; i++) y[i] += norm->bias[i];
}

static float activate(int kind, float x) {
  switch (kind) {
    case RELU: return x > 0 ? x : 0;
    case RELU2: return x > 0 ? x * x : 0;
    case GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case GELU_TANH: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    default: return x;
  }
}

// One head's query or key, normed and turned by its position's angles.
static void prepare(const Model *m, float *v, int position) {
  const int D = m->head_width, half = m->turned;
  if (m->qk_norm) {
    const Norm plain = {0, 0, RMS_NORM, 1e-6f};
    normalize(&plain, v, v, D);
  }
  const float *cosine = m->cosines + (ptrdiff_t)position * half, *sine = m->sines + (ptrdiff_t)position * half;
  for (int i = 0; i < half; i++) {
    const float first = v[i], second = v[i + half];
    v[i] = first * cosine[i] - second * sine[i];
    v[i + half] = second * cosine[i] + first * sine[i];
  }
}

static void attend(const Model *m, const Layer *layer, int head, int seen) {
  const int D = m->head_width, group = head / (m->heads / m->groups);
  const float *q = m->wide + head * D;
  const float *keys = layer->keys + (ptrdiff_t)group * m->context * D;
  const float *values = layer->values + (ptrdiff_t)group * m->context * D;
  float *scores = m->scores + (ptrdiff_t)head * m->context, *y = m->heads_out + head * D;
  float largest = -INFINITY, total = 0;
  for (int s = 0; s < seen; s++) {
    scores[s] = dot(q, keys + s * D, D) * m->scale;
    largest = scores[s] > largest ? scores[s] : largest;
  }
  for (int s = 0; s < seen; s++) total += scores[s] = expf(scores[s] - largest);
  for (int i = 0; i < D; i++) y[i] = 0;
  for (int s = 0; s < seen; s++) {
    const float weight = scores[s] / total;
    for (int i = 0; i < D; i++) y[i] += weight * values[s * D + i];
  }
}

static void attention(const Model *m, const Layer *layer, const float *x, int position) {
  const int D = m->head_width, H = m->heads, G = m->groups;
  int begin, end;
  share(layer->qkv.rows, &begin, &end);
  rows(&layer->qkv, x, m->wide, begin, end);
#pragma omp barrier
  share(H + 2 * G, &begin, &end);
  for (int head = begin; head < end; head++) {
    float *v = m->wide + head * D;
    if (head < H + G) prepare(m, v, position);
    if (head >= H) {
      float *kept = head < H + G ? layer->keys + (ptrdiff_t)(head - H) * m->context * D
                                 : layer->values + (ptrdiff_t)(head - H - G) * m->context * D;
      for (int i = 0; i < D; i++) kept[(ptrdiff_t)position * D + i] = v[i];
    }
  }
#pragma omp barrier
  share(H, &begin, &end);
  for (int head = begin; head < end; head++) attend(m, layer, head, position + 1);
#pragma omp barrier
}

static void feed_forward(const Model *m, const Layer *layer, const float *x) {
  int begin, end;
  if (m->activation == SWIGLU) {  // the matrix holds the gates first, then what they let through
    const int features = layer->into.rows / 2;
    share(features, &begin, &end);
    rows(&layer->into, x, m->wide, begin, end);
    rows(&layer->into, x, m->wide, begin + features, end + features);
    for (int i = begin; i < end; i++) m->wide[i] *= m->wide[i + features] / (1 + expf(-m->wide[i]));
  } else {
    share(layer->into.rows, &begin, &end);
    rows(&layer->into, x, m->wide, begin, end);
    for (int i = begin; i < end; i++) m->wide[i] = activate(m->activation, m->wide[i]);
  }
#pragma omp barrier
}

// x joined with a layer's output, which `layer` makes of `inner`; normed before or after. All threads enter and leave together.
static void join(const Model *m, const Linear *layer, const float *inner, const Norm *norm) {
  int begin, end;
  share(m->width, &begin, &end);
  float *y = m->normed;
  if (layer->rows)
    rows(layer, inner, y, begin, end);
  else
    for (int i = begin; i < end; i++) y[i] = inner[i];
  for (int i = begin; i < end; i++) m->x[i] = m->residual ? m->x[i] + y[i] : y[i];
#pragma omp barrier
  if (m->post_norm) {
#pragma omp single
    normalize(norm, m->x, m->x, m->width);
  }
}

static const float *normed(const Model *m, const Norm *norm) {
  if (m->post_norm) return m->x;
#pragma omp single
  normalize(norm, m->x, m->normed, m->width);
  return m->normed;
}

// Logits (V) of the token after `token`, which stands at `position`; the caches hold what stands before it.
void decode(const Model *m, int token, int position, float *logits, int threads) {
#pragma omp parallel num_threads(threads)
  {
    int begin, end;
#pragma omp single
    {
      for (int i = 0; i < m->width; i++) {
        m->x[i] = m->embedding[(ptrdiff_t)token * m->width + i];
        if (m->positions) m->x[i] += m->positions[(ptrdiff_t)position * m->width + i];
      }
      normalize(&m->embedding_norm, m->x, m->x, m->width);
    }
    for (int i = 0; i < m->layers; i++) {
      const Layer *layer = m->layer + i;
      attention(m, layer, normed(m, &layer->attention_norm), position);
      join(m, &layer->project, m->heads_out, &layer->attention_norm);
      if (m->activation == NO_LAYER) continue;
      feed_forward(m, layer, normed(m, &layer->feed_forward_norm));
      join(m, &layer->out, m->wide, &layer->feed_forward_norm);
    }
#pragma omp single
    normalize(&m->norm, m->x, m->normed, m->width);
    share(m->vocabulary, &begin, &end);
    rows(&m->head, m->normed, logits, begin, end);
    if (m->softcap > 0)
      for (int i = begin; i < end; i++) logits[i] = m->softcap * tanhf(logits[i] / m->softcap);
  }
}
