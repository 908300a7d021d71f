// Loads a library of kernels, where there is no Python for the system, and prints what it computes as hashes: of attention
// and its gradient, of counting, and of a context mixer that reads a text, each by 1, 2 and 4 threads, which have to agree.
//
//     python -m ziglang cc -target x86_64-windows-gnu -o harness.exe packaging/harness.c && wine harness.exe LIBRARY
//
// Ends with 1 where numbers of threads disagree, or numbers are none.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
__declspec(dllimport) void *__stdcall LoadLibraryA(const char *);
__declspec(dllimport) void *__stdcall GetProcAddress(void *, const char *);
static void *opened(const char *path) { return LoadLibraryA(path); }
static void *found(void *library, const char *name) { return GetProcAddress(library, name); }
#else
#include <dlfcn.h>
static void *opened(const char *path) { return dlopen(path, RTLD_NOW); }
static void *found(void *library, const char *name) { return dlsym(library, name); }
#endif

typedef struct {  // as in attend.c
  int batch, length, heads, groups, head_width, turned, qk_norm, short_numbers;
  unsigned dropped;
  float scale, eps, kept_grow;
  uint64_t seed;
  const float *cosines, *sines;
} Shape;

enum { B = 3, T = 45, H = 4, G = 2, D = 24, QKV = (H + 2 * G) * D, Y = H * D };

static uint64_t state = 1;
static float drawn(void) {  // in (−1, 1), the same everywhere
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(state >> 32) / 2147483648.0f;
}

static uint64_t hash(const void *bytes, size_t count) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < count; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
  return h;
}

static int faults;
static void say(const char *what, const uint64_t *hashes) {
  const int alike = hashes[0] == hashes[1] && hashes[1] == hashes[2];
  printf("%-22s %016llx%s\n", what, (unsigned long long)hashes[0], alike ? "" : "  BY THREADS DIFFERENT");
  faults += !alike;
}

int main(int count, char **words) {
  void *library = count > 1 ? opened(words[1]) : 0;
  if (!library) return puts("no library that loads"), 2;
  int (*score)(void) = (int (*)(void))found(library, "score");
  printf("score %d\n", score());
  if (score() <= 0) return 0;

  int (*attend)(const Shape *, const void *, void *, float *, void *, int) =
      (int (*)(const Shape *, const void *, void *, float *, void *, int))found(library, "attend");
  const size_t size = *(const size_t *)found(library, "shape_size");
  if (size != sizeof(Shape)) return printf("a shape has %zu bytes there\n", size), 1;
  static float qkv[B * T * QKV], y[B * T * Y], gradient[B * T * Y], kept[B * H * 2 * T], of_qkv[B * T * QKV];
  static float cosines[T * D / 2], sines[T * D / 2];
  for (int i = 0; i < B * T * QKV; i++) qkv[i] = 3 * drawn();
  for (int i = 0; i < B * T * Y; i++) gradient[i] = drawn();
  for (int i = 0; i < T * D / 2; i++) {
    const float x = drawn(), along = sqrtf(1 - x * x);
    cosines[i] = x, sines[i] = along;
  }
  const Shape shape = {B, T, H, G, D, D / 2, 1, 0, 1u << 30, 0.2f, 1e-6f, 4.0f / 3, 7, cosines, sines};
  uint64_t forward[3], backward[3], ranked[3] = {0}, mixed[3];
  for (int i = 0; i < 3; i++) {
    if (!attend(&shape, qkv, y, kept, 0, 1 << i)) return puts("no memory"), 1;
    for (int k = 0; k < B * T * Y; k++) faults += !isfinite(y[k]);
    forward[i] = hash(y, sizeof y);
    memcpy(y, gradient, sizeof y);
    if (!attend(&shape, qkv, y, kept, of_qkv, 1 << i)) return puts("no memory"), 1;
    for (int k = 0; k < B * T * QKV; k++) faults += !isfinite(of_qkv[k]);
    backward[i] = hash(of_qkv, sizeof of_qkv);
  }
  say("attention", forward), say("attention, backward", backward);

  int64_t (*rank)(const int32_t *, const int32_t *, int64_t, int64_t, int64_t, int32_t *, int32_t *, int32_t *, int64_t *) =
      (int64_t (*)(const int32_t *, const int32_t *, int64_t, int64_t, int64_t, int32_t *, int32_t *, int32_t *, int64_t *))
          found(library, "counting_rank_pairs");
  enum { N = 5000, V = 60 };
  static int32_t tokens[N + 1], ranks[N], first[N], work[2 * N];
  static int64_t heads[V + 1];
  for (int i = 0; i <= N; i++) tokens[i] = (int32_t)((drawn() + 1) * V / 2);
  const int64_t kinds = rank(tokens, tokens + 1, N, V, V, ranks, first, work, heads);
  for (int i = 0; i < 3; i++) ranked[i] = hash(ranks, sizeof ranks) ^ (uint64_t)kinds;
  say("counting", ranked);

  int64_t (*bytes)(int64_t) = (int64_t (*)(int64_t))found(library, "mixing_bytes");
  void (*begin)(void *, int64_t, const uint8_t *, const uint8_t *) =
      (void (*)(void *, int64_t, const uint8_t *, const uint8_t *))found(library, "mixing_start");
  int (*read)(void *, const uint8_t *, int64_t, float *) =
      (int (*)(void *, const uint8_t *, int64_t, float *))found(library, "mixing_read");
  static uint8_t text[N], kind[256], fold[256];
  static float nats[N];
  for (int i = 0; i < 256; i++) kind[i] = (uint8_t)(1 + i % 9), fold[i] = (uint8_t)i;
  for (int i = 0; i < N; i++) text[i] = i % 700 < 350 ? (uint8_t)(97 + tokens[i % 350] % 20) : (uint8_t)(97 + tokens[i] % 20);
  for (int i = 0; i < 3; i++) {
    char *room = calloc(1, (size_t)bytes(N) + 64), *model = room + (64 - (uintptr_t)room % 64) % 64;
    begin(model, N, kind, fold);
    if (!read(model, text, N, nats)) return puts("no room"), 1;
    mixed[i] = hash(nats, sizeof nats);
    free(room);
  }
  double lost = 0;
  for (int i = 0; i < N; i++) lost += nats[i];
  say("context mixing", mixed);
  printf("%.4f nats a unit\n", lost / N);
  return faults != 0;
}
