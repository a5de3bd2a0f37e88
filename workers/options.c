#include "workers/options.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/vec.h"

enum { ROWS = 24 };

/* The rows that the user sees, in groups that children take; each group ends with an empty row. */
typedef struct {
  cv_option request[8], plan[9], output[3], links[3], child[5];
} tables;

static void fill(cv_worker_options *o, tables *t) {
  *t = (tables){
      .request = {CV_REQUEST_OPTIONS(o->request), {0}},
      .plan = {{"--plan", CV_OPTION_TEXT, &o->plan, "FILE", "runs this plan", 0, 0},
               {"--plans", CV_OPTION_TEXT, &o->plans, "FILE",
                "runs all requests under each plan, a path a line; answers go to DIR/plan_K", 0, 0},
               {"--stages", CV_OPTION_INT, &o->stages, "N",
                "without a plan: so many stages (default: one a worker)", 1, 4096},
               {"--devices", CV_OPTION_TEXT, &o->devices, "FILE.yaml",
                "devices and links (see configs/devices.yaml)", 0, 0},
               {"--micro-batch", CV_OPTION_INT, &o->micro_batch, "M",
                "items a micro-batch (default: the plan's)", 1, 1 << 20},
               {"--threads", CV_OPTION_INT, &o->threads, "T",
                "compute threads of a stage (default: the plan's)", 1, 1024},
               {0}},
      .output = {{"--report", CV_OPTION_TEXT, &o->report, "FILE", "report to write (JSON)", 0, 0},
                 {0}},
      .links = {{"--transport", CV_OPTION_TEXT, &o->transport, "shm|ucx",
                 "of all edges (default: shm within a host, else ucx)", 0, 0},
                {"--trace", CV_OPTION_TEXT, &o->trace, "FILE",
                 "timeline of all processes to write (Chrome trace)", 0, 0},
                {0}},
      .child = {{"--bind", CV_OPTION_TEXT, &o->bind, "ADDRESS",
                 "of rank 0's host, for workers on other hosts (default: 127.0.0.1)", 0, 0},
                {"--control", CV_OPTION_TEXT, &o->control, "ADDRESS:PORT",
                 "where the coordinator is; set for the processes started from here", 0, 0},
                {"--rank", CV_OPTION_INT, &o->rank, "R", "likewise", 0, 1 << 20},
                {"--workers", CV_OPTION_INT, &o->workers, "N", "likewise", 1, 1 << 20},
                {0}}};
}

static int append(cv_option *rows, int count, const cv_option *group) {
  while (group->name) rows[count++] = *group++;
  return count;
}

cv_status cv_worker_options_parse(int argc, char **argv, cv_worker_options *out_options) {
  cv_worker_options *o = out_options;
  tables t;
  cv_option rows[ROWS] = {0};
  cv_texts words;
  *o = (cv_worker_options){.request.repeat = 1};
  fill(o, &t);
  int count = append(rows, 0, t.request);
  count = append(rows, count, t.plan);
  count = append(rows, count, t.output);
  count = append(rows, count, t.links);
  append(rows, count, t.child);
  const cv_command command = {
      "mpirun -n N cuvil-worker FILE.cuv --input FILE... --output-dir DIR [OPTION...]",
      "Runs an artifact as a pipeline of stages, one on each worker. Rank 0 also feeds it with "
      "the\n"
      "requests, writes the answers, and prints what each stage did with its time. Without mpirun\n"
      "it is one worker.",
      rows, 1, 1};
  cv_status status = cv_options_parse(&command, argc, argv, &words);
  o->artifact = words.len ? words.data[0] : NULL;
  cv_free(words.data);
  if (status != CV_OK) return status;
  if (o->plan && o->plans) return cv_error(CV_INVALID, "give --plan or --plans, not both");
  if (o->plans && !o->request.output_dir)
    return cv_error(CV_INVALID, "--plans needs --output-dir: answers of plan K go to DIR/plan_K");
  return CV_OK;
}

bool cv_words_push(cv_words *words, const char *text) {
  char *copy = text ? cv_strdup(text) : NULL;
  if ((copy || !text) && cv_vec_push(words, copy)) return true;
  cv_free(copy);
  return false;
}

void cv_words_deinit(cv_words *words) {
  for (size_t i = 0; i < words->len; i++) cv_free(words->data[i]);
  cv_vec_deinit(words);
}

static bool push_texts(cv_words *words, const cv_option *row) {
  const cv_texts *texts = row->target;
  bool ok = true;
  for (uint32_t i = 0; i < texts->len && ok; i++) {
    if (row->kind == CV_OPTION_LIST || i == 0) ok = cv_words_push(words, row->name);
    ok = ok && cv_words_push(words, texts->data[i]);
  }
  return ok;
}

/* The row's words, if it was given. */
static bool push_row(cv_words *words, const cv_option *row) {
  switch (row->kind) {
    case CV_OPTION_FLAG: return !*(const bool *)row->target || cv_words_push(words, row->name);
    case CV_OPTION_TEXT: {
      const char *text = *(const char *const *)row->target;
      return !text || (cv_words_push(words, row->name) && cv_words_push(words, text));
    }
    case CV_OPTION_INT: {
      int64_t value = *(const int64_t *)row->target;
      if (value == 0 && row->lo != 0) return true;
      char *text = cv_format("%" PRId64, value);
      bool ok = text && cv_words_push(words, row->name) && cv_words_push(words, text);
      cv_free(text);
      return ok;
    }
    case CV_OPTION_LIST:
    case CV_OPTION_WORDS: return push_texts(words, row);
  }
  return true;
}

cv_status cv_worker_options_forward(const cv_worker_options *options, cv_child_kind kind,
                                    const char *program, cv_words *out_words) {
  cv_worker_options copy = *options;
  tables t;
  fill(&copy, &t);
  const cv_option *const groups[CV_CHILDREN][5] = {
      [CV_CHILD_COORDINATOR] = {t.plan, t.output, t.links, t.child + 3},
      [CV_CHILD_GATEWAY] = {t.request, t.links, t.child + 1},
      [CV_CHILD_WORKER] = {t.links, t.child + 1},
  };
  bool ok = cv_words_push(out_words, program) && cv_words_push(out_words, options->artifact);
  for (int g = 0; groups[kind][g] && ok; g++)
    for (const cv_option *row = groups[kind][g]; row->name && ok; row++)
      ok = push_row(out_words, row);
  if (ok && cv_words_push(out_words, NULL)) return CV_OK;
  return cv_error_nomem(out_words->cap * sizeof(char *));
}
