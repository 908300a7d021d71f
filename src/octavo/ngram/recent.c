// Counting what a text has said so far, and mixing it in: see recent.py. A text is a row of `text`, `width` long; a span
// (row, begin, end) is what is known of it: the next token stands at `end`. Everything is computed span by span, in one
// order, so no result depends on how many there are or on threads.

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../util/parallel.h"

enum { MOST = 16 };  // tokens of the longest context that there is room for
static const float MOST_SHARE = 1.0f - 1e-4f;  // of the gate's, as in recent.py

// What followed the last tokens of a span. The estimate of order o, after o tokens, is interpolated with the one beneath:
// (count + kinds · beneath) / (all + kinds), down to the model's own (Witten and Bell 1991).
typedef struct {
    int longest;               // of the contexts that occurred before
    int32_t counted, kinds;    // tokens that followed the longest one, and how many different ones
    double adds[MOST + 1];     // the probability that an occurrence adds to its token, by the tokens that matched
    double rest;               // what is left for the model to share out
} Look;

typedef struct {
    uint8_t *matched;  // of each token of a span, how many before it are as the last ones of the span
    int32_t *some;     // tokens with one match or more
    int32_t *stamps;   // by token: when it was last counted as a kind
    int32_t now;
    double *added;     // by token: zeros, but while it is mixed in
} Room;

static int furnish(Room *room, int64_t longest_span, int64_t vocabulary) {
    room->matched = malloc(longest_span + 1);
    room->some = malloc((longest_span + 1) * sizeof *room->some);
    room->stamps = calloc(vocabulary, sizeof *room->stamps);
    room->now = 0;
    room->added = calloc(vocabulary, sizeof *room->added);
    return room->matched && room->some && room->stamps && room->added;
}

static void clear(Room *room) { free(room->matched), free(room->some), free(room->stamps), free(room->added); }

static Look look(const int32_t *tokens, int64_t count, int longest, int64_t vocabulary, Room *room) {
    Look found = {.rest = 1.0};
    int64_t alike = 0, together[MOST + 1] = {0}, kinds[MOST + 1];
    if (count == 0) return found;
    const int32_t last = tokens[count - 1];
    for (int64_t i = 0; i < count; i++) {
        int matched = 0;
        if (i > 0 && tokens[i - 1] == last) {
            matched = 1;
            while (matched < longest && matched < i && tokens[i - 1 - matched] == tokens[count - 1 - matched]) matched++;
            room->some[alike++] = (int32_t)i;
        }
        room->matched[i] = (uint8_t)matched;
        together[matched]++;
        if (matched > found.longest) found.longest = matched;
    }
    if (room->now == INT32_MAX) memset(room->stamps, 0, vocabulary * sizeof *room->stamps), room->now = 0;
    const int32_t now = ++room->now;
    int64_t all = 0, different = 0;
    for (int order = found.longest; order > 0; order--) {
        for (int64_t k = 0; k < alike; k++) {
            const int32_t i = room->some[k];
            if (room->matched[i] == order && room->stamps[tokens[i]] != now) room->stamps[tokens[i]] = now, different++;
        }
        kinds[order] = different;
    }
    for (int64_t i = 0; i < count; i++)
        if (room->stamps[tokens[i]] != now) room->stamps[tokens[i]] = now, different++;
    kinds[0] = different;
    for (int order = found.longest; order >= 0; order--) {
        all += together[order];
        if (order == found.longest) found.counted = (int32_t)all, found.kinds = (int32_t)kinds[order];
        found.adds[order] = found.rest / (double)(all + kinds[order]);
        found.rest *= (double)kinds[order] / (double)(all + kinds[order]);
    }
    for (int order = 1; order <= found.longest; order++) found.adds[order] += found.adds[order - 1];
    return found;
}

static void known_of(const Look *found, int longest, float *known) {
    memset(known, 0, (longest + 3) * sizeof *known);
    known[found->longest] = 1.0f;
    known[longest + 1] = logf(1.0f + (float)found->counted);
    known[longest + 2] = logf(1.0f + (float)found->kinds);
}

// Texts and spans of them, and what is to be done with each; `more` is the caller's.
typedef struct {
    const int32_t *text;
    int64_t width;
    const int32_t *spans;
    int64_t count;
    int longest;
    int64_t vocabulary;
    int threads;
} Texts;

typedef struct {
    const Look *look;
    const uint8_t *matched;
    const int32_t *tokens;
    int64_t length, place;
    double *added;
} Span;

typedef void Work(const Texts *texts, const Span *span, void *more);

typedef struct {
    const Texts *texts;
    Work *work;
    void *more;
    int64_t longest_span;
    atomic_int short_of_memory;
} Each;

static void some(void *given) {
    Each *each = given;
    const Texts *texts = each->texts;
    const int32_t *spans = texts->spans;
    Room room;
    const int furnished = furnish(&room, each->longest_span, texts->vocabulary);
    if (!furnished) atomic_store(&each->short_of_memory, 1);
    for (ptrdiff_t i, end; furnished && hand_out(texts->count, 1, &i, &end);) {
        Span span = {.matched = room.matched, .place = i, .added = room.added};
        span.tokens = texts->text + spans[3 * i] * texts->width + spans[3 * i + 1];
        span.length = spans[3 * i + 2] - spans[3 * i + 1];
        const Look found = look(span.tokens, span.length, texts->longest, texts->vocabulary, &room);
        span.look = &found;
        each->work(texts, &span, each->more);
    }
    clear(&room);
}

// Returns 0 where memory did not reach, else 1.
static int for_each(const Texts *texts, Work *work, void *more) {
    const int32_t *spans = texts->spans;
    Each each = {.texts = texts, .work = work, .more = more};
    for (int64_t i = 0; i < texts->count; i++)
        if (spans[3 * i + 2] - spans[3 * i + 1] > each.longest_span)
            each.longest_span = spans[3 * i + 2] - spans[3 * i + 1];
    together(texts->count > 16 ? texts->threads : 1, some, &each);
    return !atomic_load(&each.short_of_memory);
}

static void mix_one(const Span *span, int64_t vocabulary, float weight, float *p) {
    const Look *found = span->look;
    const float kept = (float)((1.0 - weight) + weight * found->rest);
    for (int64_t v = 0; v < vocabulary; v++) p[v] *= kept;
    for (int64_t i = 0; i < span->length; i++) span->added[span->tokens[i]] += found->adds[span->matched[i]];
    for (int64_t i = 0; i < span->length; i++) {  // in double first: thousands of small floats would not add up to 1
        const int32_t token = span->tokens[i];
        p[token] += (float)(weight * span->added[token]);
        span->added[token] = 0.0;
    }
}

// What is known of each span (count, longest + 3): how many tokens matched, one of longest + 1; ln(1 + occurrences of
// these) and ln(1 + kinds of tokens that followed).
static void tell(const Texts *texts, const Span *span, void *out) {
    known_of(span->look, texts->longest, (float *)out + span->place * (texts->longest + 3));
}

int recent_known(const Texts *texts, float *out) { return for_each(texts, tell, out); }

// p (count, vocabulary) becomes (1 − weight) · p + weight · (what was said so far, beneath which stands p).
typedef struct {
    const float *weights;
    float *p;
} Mixed;

static void mix_span(const Texts *texts, const Span *span, void *more) {
    const Mixed *mixed = more;
    mix_one(span, texts->vocabulary, mixed->weights[span->place], mixed->p + span->place * texts->vocabulary);
}

int recent_mix(const Texts *texts, const float *weights, float *p) {
    Mixed mixed = {weights, p};
    return for_each(texts, mix_span, &mixed);
}

// The probability that was said of one token each, and the rest, (count,).
typedef struct {
    const int32_t *asked;
    float *out, *rest;
} Asked;

static void ask_span(const Texts *texts, const Span *span, void *more) {
    const Asked *asked = more;
    double sum = 0.0;
    for (int64_t i = 0; i < span->length; i++)
        if (span->tokens[i] == asked->asked[span->place]) sum += span->look->adds[span->matched[i]];
    asked->out[span->place] = (float)sum;
    asked->rest[span->place] = (float)span->look->rest;
}

int recent_said(const Texts *texts, const int32_t *asked, float *out, float *rest) {
    Asked all = {asked, out, rest};
    return for_each(texts, ask_span, &all);
}

// The gate: hidden = max(0, from_known · known + bias), share = 1 / (1 + exp(−out · hidden − out_bias)).
typedef struct {
    int hidden;
    const float *from_known, *bias, *out, *out_bias;
} Gate;

static float share_of(const Gate *gate, const Look *found, int longest) {
    const int features = longest + 3;
    float seen[MOST + 3], score = gate->out_bias[0];
    known_of(found, longest, seen);
    for (int h = 0; h < gate->hidden; h++) {
        float sum = gate->bias[h];
        for (int f = 0; f < features; f++) sum += gate->from_known[h * features + f] * seen[f];
        score += sum > 0.0f ? gate->out[h] * sum : 0.0f;
    }
    const float share = 1.0f / (1.0f + expf(-score));
    return share < MOST_SHARE ? share : MOST_SHARE;
}

typedef struct {
    const Gate *gate;
    float *logs;
} Predicted;

static void predict_span(const Texts *texts, const Span *span, void *more) {
    const Predicted *given = more;
    const int64_t vocabulary = texts->vocabulary;
    float *p = given->logs + span->place * vocabulary;
    for (int64_t v = 0; v < vocabulary; v++) p[v] = expf(p[v]);
    mix_one(span, vocabulary, share_of(given->gate, span->look, texts->longest), p);
    for (int64_t v = 0; v < vocabulary; v++) p[v] = logf(p[v]);
}

// `logs` (count, vocabulary), logarithms of probabilities, become those of the mixture.
int recent_predict(const Texts *texts, const Gate *gate, float *logs) {
    Predicted given = {gate, logs};
    return for_each(texts, predict_span, &given);
}

// What becomes of the probabilities of others: the share that is kept of them (count,), and what is added (count,
// vocabulary), which begins with zeros.
typedef struct {
    const Gate *gate;
    float *kept, *added;
} Beside;

static void beside_span(const Texts *texts, const Span *span, void *more) {
    const Beside *given = more;
    const float share = share_of(given->gate, span->look, texts->longest);
    given->kept[span->place] = (float)((1.0 - share) + share * span->look->rest);
    mix_one(span, texts->vocabulary, share, given->added + span->place * texts->vocabulary);
}

int recent_beside(const Texts *texts, const Gate *gate, float *kept, float *added) {
    Beside given = {gate, kept, added};
    return for_each(texts, beside_span, &given);
}
