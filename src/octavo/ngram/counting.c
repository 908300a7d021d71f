// Counting n-grams, and mixing what they predict with a network: see kneser_ney.py, tables.py's neighbour counted.py.
// Everything is computed position by position, in one order, so no result depends on how many there are or on threads.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../util/parallel.h"

enum { FEW = 16 };  // rows that a thread takes at a time

// The n-grams of one order. Those that share a context lie side by side, sorted by their last token; a context is known
// by its place in the level beneath.
typedef struct {
    const int32_t *start;  // of each context its first n-gram here, and one end
    const int32_t *token;  // of each n-gram its last token
    const float *share, *lower_share;  // of each n-gram its probability, discounted: by occurrences, by predecessors
    const float *left, *lower_left;    // of each context what the discounts leave to the order beneath
    const float *known;                // of each context ln(1 + occurrences), ln(1 + kinds of tokens), side by side
} Level;

// The gate: hidden = max(0, state + from_known · known + bias); scores = out · hidden + out_bias. `known` is what is known
// of the contexts, then the entropy of the network's prediction and the logarithm of its largest probability.
typedef struct {
    int hidden;
    const float *from_known, *bias, *out, *out_bias;
} Gate;

// Ranks of n pairs (a, b), those of equal pairs alike; a < size_a, b < size_b. `first[r]` is the first place of rank r.
// `work`: 2n; `heads`: the larger size + 1. Returns how many ranks there are.
int64_t counting_rank_pairs(const int32_t *a, const int32_t *b, int64_t n, int64_t size_a, int64_t size_b, int32_t *rank,
                   int32_t *first, int32_t *work, int64_t *heads) {
    int32_t *by_b = work, *sorted = work + n;
    memset(heads, 0, (size_b + 1) * sizeof *heads);
    for (int64_t i = 0; i < n; i++) heads[b[i] + 1]++;
    for (int64_t i = 0; i < size_b; i++) heads[i + 1] += heads[i];
    for (int64_t i = 0; i < n; i++) by_b[heads[b[i]]++] = (int32_t)i;
    memset(heads, 0, (size_a + 1) * sizeof *heads);
    for (int64_t i = 0; i < n; i++) heads[a[i] + 1]++;
    for (int64_t i = 0; i < size_a; i++) heads[i + 1] += heads[i];
    for (int64_t i = 0; i < n; i++) sorted[heads[a[by_b[i]]]++] = by_b[i];
    int64_t ranks = 0;
    int32_t last_a = -1, last_b = -1;
    for (int64_t i = 0; i < n; i++) {
        const int32_t place = sorted[i];
        if (a[place] != last_a || b[place] != last_b) {
            last_a = a[place], last_b = b[place];
            first[ranks++] = place;
        }
        rank[place] = (int32_t)(ranks - 1);
    }
    return ranks;
}

static int32_t find(const Level *level, int32_t context, int32_t token) {
    int32_t low = level->start[context], high = level->start[context + 1];
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (level->token[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < level->start[context + 1] && level->token[low] == token ? low : -1;
}

// places[j]: of the last j tokens in level j, −1 where they were never counted; a new token comes.
static void step(const Level *levels, int orders, int32_t *places, int32_t token) {
    for (int j = orders - 1; j > 0; j--)
        places[j] = places[j - 1] < 0 ? -1 : find(levels + j - 1, places[j - 1], token);
}

static void begin(int orders, int32_t *places) {
    places[0] = 0;
    for (int j = 1; j < orders; j++) places[j] = -1;
}

// Of each of `length` tokens in each of `rows` rows the places (rows, length, orders) of the contexts that end with it.
// `fresh`, if it is there: where nothing before counts.
typedef struct {
    const Level *levels;
    int orders;
    const int32_t *tokens;
    const uint8_t *fresh;
    int64_t rows, length;
    int32_t *found;
} Contexts;

static void contexts(void *given) {
    const Contexts *g = given;
    const int orders = g->orders;
    const int64_t length = g->length;
    for (ptrdiff_t row, end; hand_out(g->rows, 1, &row, &end);) {
        int32_t *places = g->found + row * length * orders;
        for (int64_t t = 0; t < length; t++, places += orders) {
            if (t == 0 || (g->fresh && g->fresh[row * length + t])) begin(orders, places);
            else memcpy(places, places - orders, orders * sizeof *places);
            step(g->levels, orders, places, g->tokens[row * length + t]);
        }
    }
}

void counting_contexts(const Level *levels, int orders, const int32_t *tokens, const uint8_t *fresh, int64_t rows,
                       int64_t length, int32_t *found, int threads) {
    Contexts all = {levels, orders, tokens, fresh, rows, length, found};
    together(rows * length > 4096 ? threads : 1, contexts, &all);
}

// What most often came next, token by token, in the longest context that anything followed: of at most `most` tokens
// after a text of `length` the tokens, and the share that each has there. Returns how many it finds.
int64_t counting_follow(const Level *levels, int orders, const int32_t *text, int64_t length, int64_t most, int32_t *tokens,
               float *shares) {
    int32_t places[64];
    begin(orders, places);
    for (int64_t t = 0; t < length; t++) step(levels, orders, places, text[t]);
    for (int64_t i = 0; i < most; i++) {
        int k = orders - 1;
        while (k > 0 && (places[k] < 0 || levels[k].start[places[k]] == levels[k].start[places[k] + 1])) k--;
        if (!k) return i;
        const Level *level = levels + k;
        int32_t best = level->start[places[k]];
        for (int32_t j = best + 1; j < level->start[places[k] + 1]; j++)
            if (level->share[j] > level->share[best]) best = j;
        shares[i] = level->share[best];
        step(levels, orders, places, tokens[i] = level->token[best]);
    }
    return most;
}

// What is known of the contexts of `count` positions: (count, 2 (orders − 1)).
static void known_of(const Level *levels, int orders, const int32_t *places, float *known) {
    for (int k = 1; k < orders; k++) {
        const float *found = places[k] < 0 ? NULL : levels[k].known + 2 * (int64_t)places[k];
        known[2 * k - 2] = found ? found[0] : 0.0f;
        known[2 * k - 1] = found ? found[1] : 0.0f;
    }
}

typedef struct {
    const Level *levels;
    int orders;
    const int32_t *places;
    int64_t count;
    float *found;
} Known;

static void known(void *given) {
    const Known *g = given;
    for (ptrdiff_t i, end; hand_out(g->count, 64 * FEW, &i, &end);)
        for (; i < end; i++)
            known_of(g->levels, g->orders, g->places + i * g->orders, g->found + i * 2 * (g->orders - 1));
}

void counting_known(const Level *levels, int orders, const int32_t *places, int64_t count, float *found, int threads) {
    Known all = {levels, orders, places, count, found};
    together(count > 4096 ? threads : 1, known, &all);
}

// p = weights[0] · network + Σ weights[k] · (n-grams of order k), in place of the network's.
static void mix_one(const Level *levels, int orders, int64_t vocabulary, const int32_t *places, const float *weights,
                    float *p) {
    float beneath[64];  // the weight that each order's lower estimate has, from the top down
    float rest = 0.0f;
    for (int k = orders; k > 0; k--) {  // order k, whose context is places[k − 1]
        const int seen = places[k - 1] >= 0;
        const Level *level = levels + k - 1;
        beneath[k - 1] = rest;  // of the lower estimate of order k
        rest = rest * (seen && level->lower_left ? level->lower_left[places[k - 1]] : 1.0f)
             + weights[k] * (seen ? level->left[places[k - 1]] : 1.0f);
    }
    const float even = rest / (float)vocabulary, network = weights[0];
    for (int64_t v = 0; v < vocabulary; v++) p[v] = network * p[v] + even;
    for (int k = 1; k <= orders; k++) {
        const int32_t place = places[k - 1];
        if (place < 0) continue;
        const Level *level = levels + k - 1;
        const float own = weights[k], lower = beneath[k - 1];
        const int32_t end = level->start[place + 1];
        if (level->lower_share)
            for (int32_t i = level->start[place]; i < end; i++)
                p[level->token[i]] += own * level->share[i] + lower * level->lower_share[i];
        else
            for (int32_t i = level->start[place]; i < end; i++) p[level->token[i]] += own * level->share[i];
    }
}

typedef struct {
    const Level *levels;
    int orders;
    int64_t vocabulary;
    const int32_t *places;
    const float *given;  // (count, orders + 1) weights, or (count, vocabulary) slopes
    int64_t count;
    float *found;
} Mixed;

static void mix(void *given) {
    const Mixed *g = given;
    for (ptrdiff_t i, end; hand_out(g->count, FEW, &i, &end);)
        for (; i < end; i++)
            mix_one(g->levels, g->orders, g->vocabulary, g->places + i * g->orders, g->given + i * (g->orders + 1),
                    g->found + i * g->vocabulary);
}

void counting_mix(const Level *levels, int orders, int64_t vocabulary, const int32_t *places, const float *weights,
                  int64_t count, float *p, int threads) {
    Mixed all = {levels, orders, vocabulary, places, weights, count, p};
    together(count > 256 ? threads : 1, mix, &all);
}

// For `slope` (count, vocabulary) = d loss / d mixture: `found` (count, orders) = Σ_v slope[v] · p_k(v) of each order.
static void slopes_of(const Level *levels, int orders, int64_t vocabulary, const int32_t *places, const float *d,
                      float *found) {
    double beneath = 0.0;
    for (int64_t v = 0; v < vocabulary; v++) beneath += d[v];
    beneath /= (double)vocabulary;
    for (int k = 1; k <= orders; k++) {
        const int32_t place = places[k - 1];
        double own = beneath;
        if (place >= 0) {
            const Level *level = levels + k - 1;
            double share = 0.0, lower = 0.0;
            for (int32_t j = level->start[place]; j < level->start[place + 1]; j++) {
                share += (double)level->share[j] * d[level->token[j]];
                if (level->lower_share) lower += (double)level->lower_share[j] * d[level->token[j]];
            }
            own = share + level->left[place] * beneath;
            if (level->lower_share) beneath = lower + level->lower_left[place] * beneath;
        }
        found[k - 1] = (float)own;
    }
}

static void slopes(void *given) {
    const Mixed *g = given;
    for (ptrdiff_t i, end; hand_out(g->count, FEW, &i, &end);)
        for (; i < end; i++)
            slopes_of(g->levels, g->orders, g->vocabulary, g->places + i * g->orders, g->given + i * g->vocabulary,
                      g->found + i * g->orders);
}

void counting_slopes(const Level *levels, int orders, int64_t vocabulary, const int32_t *places, const float *slope,
                     int64_t count, float *found, int threads) {
    Mixed all = {levels, orders, vocabulary, places, slope, count, found};
    together(count > 256 ? threads : 1, slopes, &all);
}

// ln of the mixture (rows, vocabulary) for each span (slot, begin, end) of a text: after its last token, of the tokens of
// the slot's row that stand before `end`. A row of `logits` is `stride` long: the vocabulary's, then what the state gives
// the gate's hidden units.
typedef struct {
    const Level *levels;
    int orders;
    int64_t vocabulary;
    const Gate *gate;
    const int32_t *text;
    int64_t width;
    const int32_t *spans;
    int64_t rows, stride;
    const float *logits;
    float *out;
} Predicted;

static void predict_one(const Predicted *g, int64_t row) {
    const int orders = g->orders;
    const int64_t vocabulary = g->vocabulary;
    const Gate *gate = g->gate;
    int32_t places[64];
    float seen[130], weights[65], hidden[256];
    begin(orders, places);
    const int32_t *tokens = g->text + g->spans[3 * row] * g->width, end = g->spans[3 * row + 2];
    for (int32_t t = end < orders ? 0 : end - orders + 1; t < end; t++) step(g->levels, orders, places, tokens[t]);
    known_of(g->levels, orders, places, seen);
    const float *given = g->logits + row * g->stride, *state = given + vocabulary;
    float *p = g->out + row * vocabulary, most = -INFINITY, total = 0.0f, mean = 0.0f;
    for (int64_t v = 0; v < vocabulary; v++) if (given[v] > most) most = given[v];
    for (int64_t v = 0; v < vocabulary; v++) {
        const float above = given[v] - most;
        total += p[v] = expf(above);
        mean += p[v] * above;
    }
    const float scale = 1.0f / total;
    const int features = 2 * orders;
    seen[features - 2] = logf(total) - mean * scale;
    seen[features - 1] = -logf(total);
    for (int h = 0; h < gate->hidden; h++) {
        float sum = state[h] + gate->bias[h];
        for (int f = 0; f < features; f++) sum += gate->from_known[h * features + f] * seen[f];
        hidden[h] = sum > 0.0f ? sum : 0.0f;
    }
    float highest = -INFINITY, all = 0.0f;
    for (int k = 0; k <= orders; k++) {
        weights[k] = gate->out_bias[k];
        for (int h = 0; h < gate->hidden; h++) weights[k] += gate->out[k * gate->hidden + h] * hidden[h];
        if (weights[k] > highest) highest = weights[k];
    }
    for (int k = 0; k <= orders; k++) all += weights[k] = expf(weights[k] - highest);
    for (int k = 0; k <= orders; k++) weights[k] /= all;
    for (int64_t v = 0; v < vocabulary; v++) p[v] *= scale;
    mix_one(g->levels, orders, vocabulary, places, weights, p);
    for (int64_t v = 0; v < vocabulary; v++) p[v] = logf(p[v]);
}

static void predict(void *given) {
    const Predicted *g = given;
    for (ptrdiff_t row, end; hand_out(g->rows, 1, &row, &end);) predict_one(g, row);
}

void counting_predict(const Level *levels, int orders, int64_t vocabulary, const Gate *gate, const int32_t *text,
                      int64_t width, const int32_t *spans, int64_t rows, int64_t stride, const float *logits, float *out,
                      int threads) {
    Predicted all = {levels, orders, vocabulary, gate, text, width, spans, rows, stride, logits, out};
    together(rows * vocabulary > 65536 ? threads : 1, predict, &all);
}
