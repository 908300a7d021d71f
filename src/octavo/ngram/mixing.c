// Context mixing: what comes next, from many contexts at once, decided bit by bit. The twin is in mixing.py.
//
// A text is a sequence of units of 8 bits. Each bit is predicted by what followed each of some contexts: the last units,
// the word and the words before it, units further back, the line's column and what stands above, the longest match. Of
// each context a bucket keeps a short history of every bit of half a unit; what such histories came to is counted. All
// predictions are mixed in the logistic domain by several sets of weights, each chosen by a small context, and their
// mixtures by one more; the mixture is corrected by what it came to in its context (secondary estimation). Weights and
// counts learn from each bit after it was predicted.
//
// Sources: Mahoney 2005 (PAQ6: bit histories, mixing by context, secondary estimation), Mahoney 2013 (the ZPAQ
// specification), Veness et al. 2020 (gated linear networks, which such mixers are). No code of these is here.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../util/parallel.h"

enum {
    ORDERS = 8,       // the first contexts: of the last 0 to 6 and of 8 units
    CONTEXTS = 22,
    MATCHES = 2,
    DIRECT = 3,       // contexts whose bits are counted one by one: the last 1, 2 and 3 units
    INPUTS = 64,      // two of each context and match, one of each direct count, a constant; the rest is 0
    LANES = 16,
    SETS = 7,
    ROWS = 2048,      // of each set
    STEPS = 32,       // of secondary estimation, half a logit each
    ESTIMATES = 2,
    LONGEST = 64,     // of a match
    LENGTHS = 24,     // kinds of lengths
    WINDOW = 256,     // units before a position that its prediction depends on
    FORGETS = 400,    // bits after which a count of histories forgets
    DIRECT_FORGETS = 250,
    WAYS = 4,         // buckets of a line of the processor's cache
    STRETCHED = 4096,
};
static const int MATCH_LEAST[MATCHES] = {12, 5};
static const float RATE = 0.003f, FIRST_RATE = 0.02f, RATE_FALLS = 2048.0f, FINAL_RATE = 0.001f, CORRECTED = 0.02f;
static const float CERTAINTY = 3.0f, FIRST_WEIGHT = 0.22f, BIAS = 0.3f, LARGEST = 12.0f, LEAST = 1.0f / 65536;

typedef struct { float p, stretched; int32_t n; } Count;  // a probability, its logit, and how often it was corrected
typedef struct { uint32_t p_n[16]; } Half;        // of each bit of half a unit a probability of 22 bits, and how often
typedef struct { uint8_t check, history[15]; } Bucket;

// Where a text stands: what the contexts of its next unit are made of.
typedef struct {
    const uint8_t *text;
    int64_t begin, end;     // what is known of it
    uint64_t last;          // units, the newest lowest
    uint32_t word, before[2], gap;  // hashes: of the word that stands here, of those before it, of what follows the last
    uint32_t kinds;
    int64_t line, above;    // where this line and the one before it begin; −1: nowhere
    int column, indent, first;
    int second;             // whether the next unit ends a symbol of two
} Place;

// All that is learned, in one piece of memory with no address in it. Behind it stand direct counts, buckets, the places
// of matches, and the text that was read.
typedef struct {
    int64_t capacity, room, length, decided;  // the tables are of a size for `capacity` units; the text has `room`
    int32_t direct_bits, bucket_bits, head_bits, histories;
    uint8_t kind[256], fold[256];     // of a unit: what kind of character it is, and which one it is in words
    uint8_t next[256][2], bits[256];  // of a history: that after a 0 and after a 1, and how many bits it is of
    float stretched[STRETCHED], rates[512];
    Count by_history[CONTEXTS][256], matched[MATCHES][LENGTHS];
    float weights[SETS][ROWS][INPUTS], final[256][8];
    uint16_t estimated[ESTIMATES][65536][STEPS];
    Place place;                      // where the text ends
} Model;

enum { FIRST_OF_TWO = 0, LETTER = 1, CAPITAL = 2, SPACE = 4, LINE = 5 };  // kinds that mixing.py gives

static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static int bits_for(int64_t n, int least, int most) {
    int bits = least;
    while (bits < most && (1ll << bits) < n) bits++;
    return bits;
}
static Half *direct(const Model *m, int order) {  // order 1 to DIRECT
    return (Half *)((char *)m + padded(sizeof *m)) + ((int64_t)(order - 1) << m->direct_bits);
}
static Bucket *buckets(const Model *m) { return (Bucket *)direct(m, DIRECT + 1); }
static int32_t *heads(const Model *m, int which) {
    return (int32_t *)((char *)buckets(m) + ((int64_t)sizeof(Bucket) << m->bucket_bits)) + ((int64_t)which << m->head_bits);
}
static uint8_t *text_of(const Model *m) { return (uint8_t *)heads(m, MATCHES); }

static void size(Model *m, int64_t capacity) {
    m->capacity = m->room = capacity;
    m->direct_bits = bits_for(capacity / 4, 10, 18);
    m->bucket_bits = bits_for(12 * capacity, 14, 24);
    m->head_bits = bits_for(capacity, 12, 26);
}

// Bytes of a model that may read so many units.
int64_t mixing_bytes(int64_t capacity) {
    Model *m = malloc(sizeof *m);
    if (!m) return -1;
    size(m, capacity);
    const int64_t bytes = (char *)text_of(m) - (char *)m + padded(capacity);
    free(m);
    return bytes;
}

// 1 / (1 + e^−x), |x| ≤ LARGEST, to some 1e-6: e^−x = 2^whole · 2^rest, the latter by its series.
static inline float squash(float x) {
    const float t = -1.44269504f * x, whole = floorf(t + 0.5f), r = (t - whole) * 0.69314718f;
    const float power = 1 + r * (1 + r * (0.5f + r * (0.166666667f + r * (0.0416666667f + r * (0.00833333333f + r * 0.00138888889f)))));
    union { int32_t i; float f; } two = {((int32_t)whole + 127) << 23};
    return 1 / (1 + two.f * power);
}
static inline float clipped(float x, float most) { return x > most ? most : x < -most ? -most : x; }
static inline float stretch(const Model *m, float p) { return m->stretched[(int)(p * (STRETCHED - 1) + 0.5f)]; }
static inline uint64_t hashed(uint64_t a, uint64_t b) {
    uint64_t h = (a + 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    h = ((h ^ h >> 32) + b) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

static Count new_count(const Model *m, float p) { return (Count){p, stretch(m, p), 0}; }

// Histories are pairs of counts, and which bit came last where both came. A bit that comes makes the other's count
// smaller where that was more than 2: what came lately tells more.
static const int MOST_COUNTED[] = {41, 24, 12, 7, 5, 5};
static int lessened(int n) { return n <= 2 ? n : n == 3 ? 2 : n <= 5 ? 3 : n <= 8 ? 4 : n <= 13 ? 5 : n <= 25 ? 6 : 7; }
static int allowed(const int *n) {
    const int less = n[0] < n[1] ? n[0] : n[1], more = n[0] + n[1] - less;
    return less < 6 && more <= MOST_COUNTED[less];
}
static void make_histories(Model *m) {
    int known[256][3] = {{0}}, count = 1;
    for (int s = 0; s < count; s++) {
        for (int y = 0; y < 2; y++) {
            int n[2] = {known[s][0], known[s][1]};
            n[y]++, n[!y] = lessened(n[!y]);
            while (!allowed(n)) n[n[y] >= n[!y] ? y : !y]--;
            const int last = n[0] && n[1] ? y : 0;
            int found = 0;
            while (found < count && (known[found][0] != n[0] || known[found][1] != n[1] || known[found][2] != last)) found++;
            if (found == count) known[count][0] = n[0], known[count][1] = n[1], known[count++][2] = last;
            m->next[s][y] = (uint8_t)found;
        }
        m->bits[s] = (uint8_t)(known[s][0] + known[s][1]);
        for (int c = 0; c < CONTEXTS; c++)
            m->by_history[c][s] = new_count(m, (known[s][1] + 0.4f) / (known[s][0] + known[s][1] + 0.8f));
    }
    m->histories = count;
}

static void arrive(Place *w, const uint8_t *text, int64_t begin) {
    memset(w, 0, sizeof *w);
    w->text = text, w->begin = w->end = w->line = begin, w->above = -1;
}

// A model that has read nothing, in memory of `mixing_bytes`, all zeros.
void mixing_start(Model *m, int64_t capacity, const uint8_t *kind, const uint8_t *fold) {
    size(m, capacity);
    memcpy(m->kind, kind, 256), memcpy(m->fold, fold, 256);
    for (int i = 0; i < 512; i++) m->rates[i] = 1 / (i + 1.5f);
    for (int i = 0; i < STRETCHED; i++) {
        const double p = (i + 0.5) / STRETCHED;
        m->stretched[i] = (float)log(p / (1 - p));
    }
    make_histories(m);
    arrive(&m->place, 0, 0);
    for (int i = 0; i < MATCHES; i++)
        for (int j = 0; j < LENGTHS; j++) m->matched[i][j] = new_count(m, 0.75f);
    for (int64_t i = 0; i < (int64_t)DIRECT << m->direct_bits; i++)
        for (int j = 0; j < 16; j++) direct(m, 1)[i].p_n[j] = 1u << 31;
    for (int s = 0; s < SETS; s++)
        for (int row = 0; row < ROWS; row++)
            for (int i = 0; i < CONTEXTS; i++) m->weights[s][row][i] = FIRST_WEIGHT;
    for (int row = 0; row < 256; row++)
        for (int s = 0; s < SETS; s++) m->final[row][s] = 1.0f / SETS;
    uint16_t line[STEPS];
    for (int i = 0; i < STEPS; i++) line[i] = (uint16_t)(squash((i - STEPS / 2) * 0.5f) * 65535);
    for (int e = 0; e < ESTIMATES; e++)
        for (int i = 0; i < 65536; i++) memcpy(m->estimated[e][i], line, sizeof line);
}

static inline void pass(const Model *m, Place *w) {  // the unit at `end`
    const int unit = w->text[w->end++], second = w->second;
    w->second = !second && m->kind[unit] == FIRST_OF_TWO;
    const int kind = second || w->second ? LETTER : m->kind[unit];
    w->last = w->last << 8 | (uint64_t)unit;
    w->kinds = w->kinds << 4 | (uint32_t)kind;
    if (kind <= CAPITAL) {
        if (!w->word) w->gap = 0;
        w->word = (uint32_t)(hashed(w->word, m->fold[unit]) >> 16) | 1;
    } else {
        if (w->word) w->before[1] = w->before[0], w->before[0] = w->word, w->word = 0, w->gap = 0;
        w->gap = (uint32_t)(hashed(w->gap, (uint64_t)unit) >> 16);
    }
    if (kind == LINE) w->above = w->line, w->line = w->end, w->column = w->indent = w->first = 0;
    else {
        w->column++;
        if (!w->first) {
            if (kind == SPACE) w->indent++;
            else w->first = unit;
        }
    }
}

// A prediction on its way to the next unit, and what its inputs were.
typedef struct {
    uint64_t hashes[CONTEXTS];
    Bucket *slots[2][CONTEXTS];  // of the unit's upper half and of its lower one; the same of direct counts
    int64_t match[MATCHES];      // where what follows the match stands in the model's text
    int length[MATCHES], expected;
    int chosen[SETS];            // of each set, by what stands before the unit
    int node, bit;               // 1 and the bits of the unit so far; how many these are
    float x[INPUTS] __attribute__((aligned(64)));
    float mixed[SETS], p_mixed[SETS], together, p_together, p;
    int rows[SETS];
    Half *halves[2][DIRECT];
    Count *counts[CONTEXTS], *matches[MATCHES];
    int match_bit[MATCHES], estimates[ESTIMATES], step;
    float between;
} Next;

static inline int unit_back(const Place *w, int n) { return (int)(w->last >> (8 * n - 8) & 255); }

static uint64_t match_hash(const Place *w, int least) {
    uint64_t h = 0;
    for (int i = 1; i <= least; i++) h = (h + w->text[w->end - i] + 1) * 0x9E3779B97F4A7C15u;
    return h;
}

static void look_for_matches(const Model *m, const Place *w, Next *n) {
    const uint8_t *known = text_of(m);
    for (int i = 0; i < MATCHES; i++) {
        n->length[i] = 0;
        if (w->end - w->begin < MATCH_LEAST[i]) continue;
        const int64_t at = heads(m, i)[match_hash(w, MATCH_LEAST[i]) >> (64 - m->head_bits)];
        int64_t most = w->end - w->begin < at ? w->end - w->begin : at;
        if (most > LONGEST) most = LONGEST;
        int length = 0;
        while (length < most && known[at - 1 - length] == w->text[w->end - 1 - length]) length++;
        if (length >= MATCH_LEAST[i]) n->length[i] = length, n->match[i] = at;
    }
    if (!n->length[0]) n->length[0] = n->length[1], n->match[0] = n->match[1];
    n->expected = n->length[0] ? known[n->match[0]] + 1 : 0;
}

static inline uint64_t line_of(const Model *m, uint64_t hash) {
    return (hash >> 20 & ((1ull << m->bucket_bits) / WAYS - 1)) * WAYS;
}

static void look(const Model *m, const Place *w, Next *n) {
    look_for_matches(m, w, n);
    const uint64_t last = w->last;
    const int up = w->above >= 0 && w->above + w->column < w->line ? w->text[w->above + w->column] + 1 : 0;
    const uint64_t here = w->word ? hashed(20, w->word) : hashed(21, (uint64_t)w->before[0] << 32 ^ w->gap);
    const uint64_t one = last & 0xFF, longest = (uint64_t)(n->length[0] < 16 ? n->length[0] : 16 + (n->length[0] > 32));
    uint64_t *h = n->hashes;
    for (int order = 0; order < 7; order++) *h++ = hashed(order + 1, last & ((1ull << 8 * order) - 1));
    *h++ = hashed(9, last);
    *h++ = hashed(here, 0);
    *h++ = hashed(here, hashed(22, w->before[0]));
    *h++ = hashed(here, hashed(23, w->before[1]));
    *h++ = hashed(here, hashed(24, (uint64_t)w->before[0] << 32 | w->before[1]));
    *h++ = hashed(30, last & 0xFFFF00);
    *h++ = hashed(31, last & 0xFFFFFF00);
    *h++ = hashed(32, last & 0xFF00FF);
    *h++ = hashed(33, last & 0xFFFF0000);
    *h++ = hashed(40, (uint64_t)up << 8 | one);
    *h++ = hashed(41, (uint64_t)(w->indent << 16 | w->first << 8) << 32 | one << 32 | w->word);
    *h++ = hashed(42, (uint64_t)(w->column < 255 ? w->column : 255) << 16 | (uint64_t)up);
    *h++ = hashed(50, (uint64_t)n->expected << 16 | longest << 8 | one);
    *h++ = hashed(51, (uint64_t)(w->kinds & 0xFFFFFFF) << 8 | one);
    *h++ = hashed(52, (uint64_t)w->word << 32 | one << 16 | (uint64_t)n->expected);
    for (int i = 0; i < CONTEXTS; i++) __builtin_prefetch(buckets(m) + line_of(m, n->hashes[i]));
    const int length = n->length[0];
    n->chosen[0] = length == 0 ? 0 : length < 16 ? 1 + length / 2 : length < 32 ? 9 : length < 64 ? 10 : 11;
    n->chosen[1] = 0;
    n->chosen[2] = (int)one, n->chosen[3] = unit_back(w, 2), n->chosen[4] = (int)(w->kinds & 255);
    n->chosen[5] = n->expected, n->chosen[6] = w->word ? 1 : 0;
}

static Bucket NOTHING;  // of a context that was never seen

// The bucket of a context: its own; to write on, that of the least known context in its place.
static Bucket *find(const Model *m, uint64_t hash, int write) {
    Bucket *line = buckets(m) + line_of(m, hash), *least = line;
    const uint8_t check = (uint8_t)(hash % 255 + 1);  // 0: it was never written on
    int fewest = 256;
    for (int i = 0; i < WAYS; i++) {
        if (line[i].check == check) return line + i;
        const int known = line[i].check ? 1 + m->bits[line[i].history[0]] : 0;
        if (known < fewest) least = line + i, fewest = known;
    }
    if (!write) return &NOTHING;
    memset(least, 0, sizeof *least);
    least->check = check;
    return least;
}

// Before the first bit of each half of a unit.
static void open_half(const Model *m, const Place *w, Next *n, int write) {
    const int half = n->bit >= 4;
    uint64_t hash[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++) {
        hash[i] = half ? hashed(n->hashes[i], (uint64_t)n->node) : n->hashes[i];
        if (half) __builtin_prefetch(buckets(m) + line_of(m, hash[i]));
    }
    for (int order = 1; order <= DIRECT; order++) {
        const uint64_t key = (w->last & ((1ull << 8 * order) - 1)) << 8 | (uint64_t)n->node;
        n->halves[half][order - 1] = direct(m, order) + (hashed(60, key) >> (64 - m->direct_bits));
        __builtin_prefetch(n->halves[half][order - 1]);
    }
    for (int i = 0; i < CONTEXTS; i++) n->slots[half][i] = find(m, hash[i], write);
}

static inline int in_half(const Next *n) {  // place of the next bit's history in a bucket
    return n->bit < 4 ? n->node - 1 : ((n->node & ((1 << (n->bit - 4)) - 1)) | 1 << (n->bit - 4)) - 1;
}

static inline int length_kind(int n) {
    return n < 16 ? n : n < 20 ? 16 : n < 24 ? 17 : n < 28 ? 18 : n < 32 ? 19 : n < 40 ? 20 : n < 48 ? 21 : n < 64 ? 22 : 23;
}

static inline int rows_of(Next *n, int known) {
    n->rows[0] = n->chosen[0] * 8 + n->bit, n->rows[1] = n->node, n->rows[2] = n->chosen[2], n->rows[3] = n->chosen[3];
    n->rows[4] = n->chosen[4] * 8 + n->bit, n->rows[5] = n->chosen[5], n->rows[6] = (n->chosen[6] * 9 + known) * 8 + n->bit;
    return 0;
}

// The probability that the next bit is 1.
static float predict(const Model *m, const Place *w, Next *n) {
    const int at = in_half(n);
    Bucket *const *slots = n->slots[n->bit >= 4];
    float *x = n->x;
    int known = 0;
    n->estimates[0] = unit_back(w, 1) << 8 | n->node;
    n->estimates[1] = (int)(hashed(61, (w->last & 0xFFFF) << 8 | (uint64_t)n->node) >> 48);
    for (int e = 0; e < ESTIMATES; e++) __builtin_prefetch(m->estimated[e][n->estimates[e]] + STEPS / 2);
    for (int i = 0; i < CONTEXTS; i++) {
        const int history = slots[i]->history[at];
        Count *count = (Count *)&m->by_history[i][history];
        n->counts[i] = count;
        x[i] = history ? count->stretched : 0;
        x[CONTEXTS + i] = history ? (count->p - 0.5f) * CERTAINTY : 0;
        known += history && i < ORDERS;
    }
    x += 2 * CONTEXTS;
    for (int i = 0; i < MATCHES; i++, x += 2) {
        const int unit = n->length[i] ? text_of(m)[n->match[i]] : -1;
        x[0] = x[1] = 0, n->matches[i] = 0;
        if (unit < 0 || (unit | 256) >> (8 - n->bit) != n->node) continue;
        Count *count = (Count *)&m->matched[i][length_kind(n->length[i])];
        const int bit = unit >> (7 - n->bit) & 1;
        n->matches[i] = count, n->match_bit[i] = bit;
        x[0] = bit ? count->stretched : -count->stretched;
        x[1] = (bit ? CERTAINTY : -CERTAINTY) * (count->p - 0.5f);
    }
    for (int i = 0; i < DIRECT; i++) *x++ = m->stretched[n->halves[n->bit >= 4][i]->p_n[at + 1] >> 20];
    *x++ = BIAS;
    while (x < n->x + INPUTS) *x++ = 0;
    rows_of(n, known);
    float together = 0;
    for (int s = 0; s < SETS; s++) {
        const float *weights = m->weights[s][n->rows[s]];
        float lanes[LANES] = {0};
        for (int i = 0; i < INPUTS; i += LANES)
            for (int l = 0; l < LANES; l++) lanes[l] += weights[i + l] * n->x[i + l];
        for (int l = 0; l < 8; l++) lanes[l] += lanes[l + 8];
        for (int l = 0; l < 4; l++) lanes[l] += lanes[l + 4];
        lanes[0] += lanes[2], lanes[1] += lanes[3], lanes[0] += lanes[1];
        n->mixed[s] = clipped(lanes[0], LARGEST);
    }
    for (int s = 0; s < SETS; s++) n->p_mixed[s] = squash(n->mixed[s]);
    for (int s = 0; s < SETS; s++) together += m->final[n->node][s] * n->mixed[s];
    n->together = clipped(together, LARGEST), n->p_together = squash(n->together);
    const float place = clipped(n->together, (STEPS - 2) / 4.0f) * 2 + STEPS / 2;
    n->step = place < STEPS - 2 ? (int)place : STEPS - 2, n->between = place - n->step;
    float p = 0.5f * n->p_together;
    for (int e = 0; e < ESTIMATES; e++) {
        const uint16_t *line = m->estimated[e][n->estimates[e]] + n->step;
        p += 0.25f / 65535 * (line[0] * (1 - n->between) + line[1] * n->between);
    }
    return n->p = p < LEAST ? LEAST : p > 1 - LEAST ? 1 - LEAST : p;
}

static inline void count_in(const Model *m, Count *count, int bit, int forgets) {
    count->p += (bit - count->p) * m->rates[count->n];
    count->stretched = stretch(m, count->p);
    if (count->n < forgets) count->n++;
}

// The bit that was predicted came.
static void learn(Model *m, Next *n, int bit) {
    const float rate = RATE + FIRST_RATE / (1 + (float)m->decided / RATE_FALLS);
    m->decided++;
    for (int s = 0; s < SETS; s++) {
        float *weights = m->weights[s][n->rows[s]];
        const float wrong = (bit - n->p_mixed[s]) * rate;
        for (int i = 0; i < INPUTS; i++) weights[i] += wrong * n->x[i];
    }
    const float wrong = (bit - n->p_together) * FINAL_RATE;
    for (int s = 0; s < SETS; s++) m->final[n->node][s] += wrong * n->mixed[s];
    const int at = in_half(n);
    for (int i = 0; i < CONTEXTS; i++) {
        uint8_t *history = &n->slots[n->bit >= 4][i]->history[at];
        count_in(m, n->counts[i], bit, FORGETS);
        *history = m->next[*history][bit];
    }
    for (int i = 0; i < MATCHES; i++)
        if (n->matches[i]) count_in(m, n->matches[i], n->match_bit[i] == bit, FORGETS);
    for (int i = 0; i < DIRECT; i++) {
        uint32_t *p_n = &n->halves[n->bit >= 4][i]->p_n[at + 1];
        const uint32_t p = *p_n >> 10, times = *p_n & 1023;
        const int32_t wrong = (int32_t)((bit ? (1u << 22) - 1 : 0) - p);
        const uint32_t more = p + (uint32_t)(int32_t)((float)wrong * m->rates[times]);
        *p_n = more << 10 | (times < DIRECT_FORGETS ? times + 1 : times);
    }
    for (int e = 0; e < ESTIMATES; e++) {
        uint16_t *line = m->estimated[e][n->estimates[e]] + n->step;
        const float right = bit ? 65535 : 0;
        line[0] = (uint16_t)(line[0] + (right - line[0]) * CORRECTED * (1 - n->between) + 0.5f);
        line[1] = (uint16_t)(line[1] + (right - line[1]) * CORRECTED * n->between + 0.5f);
    }
}

static inline void decide(Next *n, int bit) { n->node = n->node << 1 | bit, n->bit++; }

// Lets a model, behind which there are so many bytes more, read as many units more.
void mixing_widen(Model *m, int64_t more) { m->room += more; }

// Reads `count` units after those before, each bit of which is predicted and then learned. `nats`, if it is there: of
// each unit −ln p before it was learned. Returns 0 where they are more than the model has room for.
int mixing_read(Model *m, const uint8_t *units, int64_t count, float *nats) {
    if (m->length + count > m->room) return 0;
    Next now, *next = &now;
    uint8_t *text = text_of(m);
    Place place = m->place;
    place.text = text;
    for (int64_t i = 0; i < count; i++) {
        double lost = 0;
        look(m, &place, next);
        next->node = 1, next->bit = 0;
        while (next->bit < 8) {
            if (next->bit % 4 == 0) open_half(m, &place, next, 1);
            const int bit = units[i] >> (7 - next->bit) & 1;
            const float p = predict(m, &place, next);
            lost -= log(bit ? p : 1 - p);
            learn(m, next, bit);
            decide(next, bit);
        }
        if (nats) nats[i] = (float)lost;
        for (int k = 0; k < MATCHES; k++)  // the next unit's place
            if (place.end - place.begin >= MATCH_LEAST[k])
                heads(m, k)[match_hash(&place, MATCH_LEAST[k]) >> (64 - m->head_bits)] = (int32_t)place.end;
        text[m->length++] = units[i];
        pass(m, &place);
    }
    m->place = place, m->place.text = 0;
    return 1;
}

// The symbols of a vocabulary, sorted by their codes: one unit, or two. A branch is a bit that tells some of them apart;
// the bits that all of them have in common are not asked for, so a distribution over them sums to one.
typedef struct {
    int32_t bit, code;         // which of the 16 bits, and those before it
    int32_t low, middle, high; // the symbols where it is 0 stand before `middle`
    int32_t left, right;       // the branches beneath; −1: one symbol is left
    float share;               // of the text's symbols here, those where it is 1
    int32_t unknown;           // whether the text has none of them
} Branch;

typedef struct {
    const Branch *branches;
    const int32_t *symbols;
    const uint8_t *units, *lengths;  // of each symbol two units, of which one or both count
    int32_t branch_count, vocabulary;
} Vocabulary;

typedef struct {
    const Model *model;
    const Vocabulary *vocabulary;
    float *logs;
    Place places[2];       // before the first unit, and after it
    Next next[2];
    int first, opened[4];  // the first unit, and the node at which each half of either was opened
    uint8_t window[WINDOW + 2];
} Spread;

// Symbols that are unlikely together share by how often the text has them.
static const float UNLIKELY = -10;

static void spread(Spread *s, int at, int low, float log_p) {
    if (at < 0) {
        s->logs[s->vocabulary->symbols[low]] = log_p;
        return;
    }
    const Branch *b = s->vocabulary->branches + at;
    float p = b->share;
    if (log_p > UNLIKELY && !b->unknown) {
        const int unit = b->bit / 8, bit = b->bit % 8, half = b->bit / 4;
        Place *w = s->places + unit;
        Next *n = s->next + unit;
        if (unit && s->first != b->code >> bit) {
            s->first = b->code >> bit, s->opened[2] = s->opened[3] = 0;
            *w = s->places[0];
            s->window[w->end] = (uint8_t)s->first;
            pass(s->model, w);
            look(s->model, w, n);
        }
        const int node = 1 << bit | (b->code & ((1 << bit) - 1)), opened = node >> bit % 4;
        if (s->opened[half] != opened) {
            s->opened[half] = n->node = opened, n->bit = bit / 4 * 4;
            open_half(s->model, w, n, 0);
        }
        n->node = node, n->bit = bit;
        p = predict(s->model, w, n);
    }
    spread(s, b->left, b->low, log_p + logf(1 - p));
    spread(s, b->right, b->middle, log_p + logf(p));
}

// ln p of each of V symbols after the last of `count` symbols; nothing is learned. `known` (2,): how long the match is,
// and how many of the ORDERS contexts were seen.
static void foretell(const Model *m, const Vocabulary *v, const int32_t *text, int64_t count, float *logs, float *known) {
    Spread s = {.model = m, .vocabulary = v, .logs = logs, .first = -1};
    int length = 0;
    int64_t from = count;
    while (from > 0 && length + v->lengths[text[from - 1]] <= WINDOW) length += v->lengths[text[--from]];
    for (int at = 0; from < count; from++)
        for (int i = 0; i < v->lengths[text[from]]; i++) s.window[at++] = v->units[2 * text[from] + i];
    arrive(s.places, s.window, 0);
    while (s.places->end < length) pass(m, s.places);
    look(m, s.places, s.next);
    spread(&s, v->branch_count ? 0 : -1, 0, 0);
    known[0] = (float)s.next->length[0], known[1] = 0;
    for (int order = 0; order < ORDERS; order++) known[1] += find(m, s.next->hashes[order], 0)->check != 0;
}

// The same after each of `count` spans (begin, end) of a text: `logs` (count, V), `known` (count, 2).
typedef struct {
    const Model *model;
    const Vocabulary *vocabulary;
    const int32_t *text;
    const int64_t *spans;
    int64_t count;
    float *logs, *known;
} Foretold;

static void foretell_some(void *given) {
    const Foretold *g = given;
    for (ptrdiff_t i, end; hand_out(g->count, 1, &i, &end);)
        foretell(g->model, g->vocabulary, g->text + g->spans[2 * i], g->spans[2 * i + 1] - g->spans[2 * i],
                 g->logs + i * g->vocabulary->vocabulary, g->known + 2 * i);
}

void mixing_predict(const Model *m, const Vocabulary *v, const int32_t *text, const int64_t *spans, int64_t count,
                    float *logs, float *known, int threads) {
    Foretold all = {m, v, text, spans, count, logs, known};
    together(count > 16 ? threads : 1, foretell_some, &all);
}

// The same before each of `count` symbols, each of which is read after that. `before` symbols stand before them in the
// text; they were read. Returns 0 where there is no room for them all.
int mixing_follow(Model *m, const Vocabulary *v, const int32_t *text, int64_t before, int64_t count, float *logs,
                  float *known) {
    int64_t units = 0;
    for (int64_t i = before; i < before + count; i++) units += v->lengths[text[i]];
    if (m->length + units > m->room) return 0;
    for (int64_t i = before; i < before + count; i++, logs += v->vocabulary, known += 2) {
        foretell(m, v, text, i, logs, known);
        mixing_read(m, v->units + 2 * text[i], v->lengths[text[i]], 0);
    }
    return 1;
}

// The gate: hidden = max(0, state + from_known · known + bias); its two numbers weigh ln p of the network and of the
// mixture. What it knows stands in `mixing_counts.py`.
typedef struct {
    int hidden;
    const float *from_known, *bias, *out, *out_bias;
} Gate;

enum { KNOWN = 6 };

// ln p (V,) of both together, from the network's logits, behind which stands what its state gives the gate, and from ln p
// of the mixture, in whose place they are put.
static void gated(const Gate *gate, int vocabulary, const float *logits, const float *known, float *logs) {
    float largest = logits[0], sum = 0, facts[KNOWN] = {0}, own[2] = {gate->out_bias[0], 1 + gate->out_bias[1]};
    for (int v = 1; v < vocabulary; v++) largest = logits[v] > largest ? logits[v] : largest;
    for (int v = 0; v < vocabulary; v++) sum += expf(logits[v] - largest);
    const float whole = largest + logf(sum);
    facts[1] = largest - whole, facts[3] = logs[0];
    for (int v = 0; v < vocabulary; v++) {
        const float log_p = logits[v] - whole;
        facts[0] -= expf(log_p) * log_p, facts[2] -= expf(logs[v]) * logs[v];
        facts[3] = logs[v] > facts[3] ? logs[v] : facts[3];
    }
    facts[4] = logf(1 + known[0]), facts[5] = known[1] / ORDERS;
    for (int h = 0; h < gate->hidden; h++) {
        float x = logits[vocabulary + h] + gate->bias[h];
        for (int k = 0; k < KNOWN; k++) x += gate->from_known[h * KNOWN + k] * facts[k];
        if (x > 0) own[0] += gate->out[h] * x, own[1] += gate->out[gate->hidden + h] * x;
    }
    largest = -INFINITY, sum = 0;
    for (int v = 0; v < vocabulary; v++) {
        logs[v] = own[0] * (logits[v] - whole) + own[1] * logs[v];
        largest = logs[v] > largest ? logs[v] : largest;
    }
    for (int v = 0; v < vocabulary; v++) sum += expf(logs[v] - largest);
    const float all = largest + logf(sum);
    for (int v = 0; v < vocabulary; v++) logs[v] -= all;
}

// Of `count` spans (row, begin, end) of rows of `width` symbols, ln p (count, V) of both, from logits (count, V + hidden).
typedef struct {
    const Model *model;
    const Vocabulary *vocabulary;
    const Gate *gate;
    const int32_t *text;
    int64_t width;
    const int32_t *spans;
    int64_t count;
    const float *logits;
    float *logs;
} Together;

static void gate_some(void *given) {
    const Together *g = given;
    const int32_t *spans = g->spans;
    const int vocabulary = g->vocabulary->vocabulary;
    for (ptrdiff_t i, end; hand_out(g->count, 1, &i, &end);) {
        float known[2], *logs = g->logs + i * vocabulary;
        foretell(g->model, g->vocabulary, g->text + spans[3 * i] * g->width, spans[3 * i + 2], logs, known);
        gated(g->gate, vocabulary, g->logits + i * (vocabulary + g->gate->hidden), known, logs);
    }
}

void mixing_gated(const Model *m, const Vocabulary *v, const Gate *gate, const int32_t *text, int64_t width,
                  const int32_t *spans, int64_t count, const float *logits, float *logs, int threads) {
    Together all = {m, v, gate, text, width, spans, count, logits, logs};
    together(count > 3 ? threads : 1, gate_some, &all);
}
