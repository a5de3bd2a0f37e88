/* cuvil-gateway: feeds a job's pipeline with the requests of a command line and writes the answers,
 * once for each plan of the coordinator. Started by the supervisor of rank 0; the job's token is in
 * CUVIL_TOKEN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/vec.h"
#include "coordinator/link.h"
#include "gateway/gateway.h"
#include "runtime/artifact.h"
#include "runtime/report.h"
#include "runtime/request_set.h"

#define CONNECT_NS ((int64_t)20000000000)
#define TURN_NS ((int64_t)100000000)  /* most time between two looks at the trace */
#define DEFER_NS ((int64_t)500000000) /* where it failed is told before that it failed */
enum { TRACE_EVENTS = 1 << 17, LATENCIES = 1 << 20 };

typedef struct {
  cv_request_options request;
  const char *control, *transport, *trace;
  int64_t rank, workers;
} options;

/* Requests of one plan. */
typedef struct {
  bool active;
  uint64_t next, answered, total;
  char folder[64];
  int64_t begin_ns;
  double *latencies; /* [LATENCIES] microseconds: the newest */
  cv_answers answers;
} course;

typedef struct {
  options options;
  cv_msg_hello hello;
  char host[256];
  cv_artifact *artifact;
  const cv_program *program;
  cv_requests requests;
  cv_gateway *gateway;
  cv_link *link;
  cv_tensor *inputs; /* [n_inputs] of the request being submitted */
  course course;
  cv_epoch epoch; /* number 0: no plan */
  bool closing, closed, stopped;
  cv_status stop;
  cv_status failure; /* told when DEFER_NS have passed */
  int64_t failed_ns;
  char text[2048];
  cv_status link_status; /* of sending from a callback */
  uint64_t dropped;
} session;

/* ---- callbacks: inside cv_gateway_wait ---- */

static void fail(session *s, cv_status status, const char *text) {
  if (s->failure != CV_OK) return;
  s->failure = status;
  s->failed_ns = cv_clock_ns();
  snprintf(s->text, sizeof s->text, "%s", text);
}

static void send_msg(session *s, const cv_msg *msg) {
  cv_status status = cv_link_send(s->link, msg);
  if (s->link_status == CV_OK) s->link_status = status;
}

static void on_answer(void *arg, const cv_answer *answer) {
  session *s = arg;
  course *c = &s->course;
  if (!c->active) return;
  if (answer->status != CV_OK) {
    fail(s, answer->status, answer->text);
    return;
  }
  c->latencies[c->answered++ % LATENCIES] = (double)answer->latency_ns / 1000;
  uint64_t index = (uint64_t)(uintptr_t)answer->context % s->requests.count;
  cv_status status = cv_answers_take(&c->answers, (uint32_t)index, answer->outputs);
  if (status != CV_OK) fail(s, status, cv_error_text());
}

static void on_route(void *arg, cv_epoch epoch, cv_status status, const char *text) {
  session *s = arg;
  if (status == CV_OK)
    send_msg(s, &(cv_msg){.kind = CV_MSG_PREPARED, .prepared = {.number = epoch.number}});
  else
    fail(s, status, text);
}

static void on_failed(void *arg, cv_epoch epoch, cv_status status, const char *text) {
  session *s = arg;
  (void)epoch;
  /* between the last answer and UNLOAD stages may have closed their ends already */
  if (s->closing || (status == CV_CANCELED && !s->course.active)) return;
  fail(s, status, text);
}

static void on_stalled(void *arg, const char *text) {
  send_msg(arg, &(cv_msg){.kind = CV_MSG_STALLED, .stalled = {.text = text}});
}

static void on_closed(void *arg, cv_epoch epoch) {
  session *s = arg;
  (void)epoch;
  s->closed = true;
}

/* ---- the requests of a plan ---- */

/* Submits what the ledger takes. A stream's state goes from request to request; it begins anew with
 * each plan. */
static cv_status submit(session *s) {
  course *c = &s->course;
  uint32_t n = s->program->n_inputs;
  while (c->next < c->total && s->failure == CV_OK) {
    const cv_tensor *from = s->requests.tensors + (size_t)(c->next % s->requests.count) * n;
    for (uint32_t i = 0; i < n; i++) {
      s->inputs[i] = from[i];
      s->inputs[i].owned = false;
    }
    cv_request request = {
        .inputs = s->inputs, .reset = c->next == 0, .context = (void *)(uintptr_t)c->next};
    uint64_t id;
    cv_status status = cv_gateway_submit(s->gateway, &request, &id);
    if (status == CV_AGAIN) return CV_OK;
    if (status != CV_OK) return status;
    c->next++;
  }
  return CV_OK;
}

static cv_status begin(session *s, const cv_msg_run *run) {
  course *c = &s->course;
  double *latencies = c->latencies;
  if (run->number != s->epoch.number || c->active)
    return cv_error(CV_CORRUPT, "RUN of plan %u came, but plan %u is prepared", run->number,
                    s->epoch.number);
  *c = (course){.active = true,
                .total = (uint64_t)s->requests.count * (uint64_t)s->requests.repeat,
                .begin_ns = cv_clock_ns(),
                .latencies = latencies};
  snprintf(c->folder, sizeof c->folder, "%s", run->folder);
  if (strchr(c->folder, '/') || c->folder[0] == '.')
    return cv_error(CV_CORRUPT, "RUN names the folder '%s'", c->folder);
  cv_answers_init(&c->answers, &s->requests);
  return cv_gateway_use(s->gateway, s->epoch);
}

/* All answers are in: writes them. */
static cv_status finish(session *s) {
  course *c = &s->course;
  const char *dir = s->options.request.output_dir;
  int64_t wall = cv_clock_ns() - c->begin_ns;
  char *path = dir && c->folder[0] ? cv_format("%s/%s", dir, c->folder) : NULL;
  if (dir && c->folder[0] && !path) return cv_error_nomem(strlen(dir));
  cv_status status = cv_answers_write(&c->answers, path ? path : dir);
  if (fflush(stdout) != 0 && status == CV_OK) status = cv_error(CV_IO, "stdout cannot be written");
  cv_free(path);
  cv_answers_deinit(&c->answers);
  c->active = false;
  if (status != CV_OK) return status;
  size_t count = c->answered < LATENCIES ? (size_t)c->answered : LATENCIES;
  cv_msg done = {.kind = CV_MSG_DONE,
                 .done = {.number = s->epoch.number,
                          .requests = c->answered,
                          .wall = wall,
                          .p50_us = cv_report_percentile(c->latencies, count, 0.5),
                          .p99_us = cv_report_percentile(c->latencies, count, 0.99)}};
  return cv_link_send(s->link, &done);
}

/* ---- what the coordinator asks for ---- */

static cv_status prepare(session *s, const cv_msg_prepare *p) {
  cv_edges edges = {0};
  cv_edge_peer *peers = NULL;
  cv_status status = CV_OK;
  if (s->epoch.number)
    return cv_error(CV_CORRUPT, "PREPARE came while plan %u is open", s->epoch.number);
  s->epoch = (cv_epoch){p->term, p->number};
  s->closing = s->closed = false;
  CV_TRY(cv_prepare_edges(p, s->program, &edges));
  peers = cv_alloc(edges.n_edges + 1, sizeof *peers);
  if (!peers) CV_TRY(cv_error_nomem(edges.n_edges * sizeof *peers));
  CV_TRY(cv_prepare_peers(p, CV_EDGE_GATEWAY, peers));
  cv_route_spec route = {
      .epoch = s->epoch, .edges = &edges, .peers = peers, .micro_batch = p->micro_batch};
  status = cv_gateway_open(s->gateway, &route);
out:
  cv_free(peers);
  cv_edges_deinit(&edges);
  return status;
}

static cv_status take(session *s, const cv_msg *msg) {
  switch (msg->kind) {
    case CV_MSG_PREPARE: return prepare(s, &msg->prepare);
    case CV_MSG_RUN: return begin(s, &msg->run);
    case CV_MSG_UNLOAD:
      s->closing = true;
      cv_gateway_close(s->gateway, s->epoch, CV_CLOSE_DRAIN);
      return CV_OK;
    case CV_MSG_STOP:
      s->stopped = true;
      s->stop = msg->stop.code <= CV_TIMEOUT ? (cv_status)msg->stop.code : CV_FAILED;
      return CV_OK;
    default:
      return cv_error(CV_CORRUPT, "the coordinator sent %s, which is not for the gateway",
                      cv_msg_name(msg->kind));
  }
}

static cv_status send_trace(session *s) {
  cv_trace_event events[CV_LINK_TRACE_CHUNK];
  if (!s->options.trace) return CV_OK;
  for (;;) {
    size_t count = cv_gateway_trace(s->gateway, events, CV_LINK_TRACE_CHUNK);
    uint64_t lost = cv_gateway_trace_dropped(s->gateway) - s->dropped;
    if (count == 0 && lost == 0) return CV_OK;
    s->dropped += lost;
    cv_status status = cv_link_send_trace(s->link, events, count, lost);
    if (status != CV_OK) return status;
  }
}

static cv_status turn(session *s) {
  cv_status status = cv_gateway_wait(s->gateway, cv_link_fd(s->link), cv_clock_ns() + TURN_NS);
  if (status != CV_OK && status != CV_TIMEOUT) return status;
  cv_msg msg;
  while (!s->stopped && (status = cv_link_receive(s->link, 0, &msg)) != CV_TIMEOUT) {
    if (status == CV_OK) status = take(s, &msg);
    if (status != CV_OK) return status;
  }
  if (s->stopped) return CV_OK;
  if (s->link_status != CV_OK) return cv_error(s->link_status, "the control link does not send");
  if (s->failure != CV_OK && cv_clock_ns() - s->failed_ns > DEFER_NS)
    return cv_error(s->failure, "%s", s->text);
  status = s->course.active ? submit(s) : CV_OK;
  if (status == CV_OK && s->course.active && s->course.answered == s->course.total)
    status = finish(s);
  if (status == CV_OK && !s->closed) status = send_trace(s);
  if (status == CV_OK && s->closed && s->epoch.number) {
    status = send_trace(s);
    msg = (cv_msg){.kind = CV_MSG_UNLOADED, .unloaded = {.number = s->epoch.number}};
    s->epoch.number = 0;
    if (status == CV_OK) status = cv_link_send(s->link, &msg);
  }
  return status;
}

/* ---- begin and end ---- */

static cv_status open_gateway(session *s) {
  static const char *const all[] = {"shm", "ucx"};
  static cv_msg_address addresses[CV_EXECUTOR_ROWS];
  static uint8_t bytes[CV_EXECUTOR_ROWS][CV_ADDRESS_MAX];
  const char *rows[CV_EXECUTOR_ROWS] = {0};
  char name[300];
  uint32_t count = 0;
  snprintf(name, sizeof name, "the gateway on %s", s->host);
  if (s->options.transport) rows[count++] = s->options.transport;
  for (size_t i = 0; i < 2 && !s->options.transport; i++)
    if (cv_transport_find(all[i])) rows[count++] = all[i];
  cv_gateway_options how = {.name = name,
                            .incarnation = s->hello.incarnation,
                            .program = s->program,
                            .rows = rows,
                            .n_rows = count,
                            .trace_events = s->options.trace ? TRACE_EVENTS : 0,
                            .events = {.arg = s,
                                       .on_answer = on_answer,
                                       .on_route = on_route,
                                       .on_failed = on_failed,
                                       .on_stalled = on_stalled,
                                       .on_closed = on_closed}};
  char head[17];
  snprintf(head, sizeof head, "%.16s", s->program->hash);
  how.deployment = strtoull(head, NULL, 16); /* as the coordinator counts it */
  cv_status status = cv_gateway_create(&how, &s->gateway);
  for (uint32_t i = 0; i < count && status == CV_OK; i++) {
    size_t size = 0;
    status = cv_gateway_address(s->gateway, i, bytes[i], CV_ADDRESS_MAX, &size);
    addresses[i] = (cv_msg_address){rows[i], bytes[i], (uint32_t)size};
  }
  s->hello.addresses = addresses;
  s->hello.n_addresses = count;
  return status;
}

static cv_status run(session *s, const char *path) {
  cv_status status = CV_OK;
  s->hello.token = getenv("CUVIL_TOKEN");
  s->hello.member = s->hello.size = (uint32_t)s->options.workers;
  CV_TRY(cv_artifact_open(path, &s->artifact));
  s->program = cv_artifact_program(s->artifact);
  s->hello.artifact = s->program->hash;
  CV_TRY(cv_requests_read(s->program, &s->options.request, &s->requests));
  s->inputs = cv_alloc(s->program->n_inputs + 1, sizeof *s->inputs);
  s->course.latencies = cv_alloc(LATENCIES, sizeof *s->course.latencies);
  if (!s->inputs || !s->course.latencies) CV_TRY(cv_error_nomem(LATENCIES * sizeof(double)));
  CV_TRY(open_gateway(s));
  CV_TRY(cv_link_connect(s->options.control, cv_clock_ns() + CONNECT_NS, &s->link));
  CV_TRY(cv_link_send(s->link, &(cv_msg){.kind = CV_MSG_HELLO, .hello = s->hello}));
  while (!s->stopped) CV_TRY(turn(s));
out:
  return status;
}

static void deinit(session *s) {
  cv_answers_deinit(&s->course.answers);
  cv_gateway_destroy(s->gateway);
  cv_link_close(s->link);
  cv_requests_deinit(&s->requests);
  cv_artifact_close(s->artifact);
  cv_free(s->inputs);
  cv_free(s->course.latencies);
}

int main(int argc, char **argv) {
  static session s = {.options = {.request = {.repeat = 1}}};
  options *o = &s.options;
  cv_texts words;
  const cv_option rows[] = {
      {"--control", CV_OPTION_TEXT, &o->control, "ADDRESS:PORT", "of the coordinator", 0, 0},
      {"--rank", CV_OPTION_INT, &o->rank, "R", "0, the rank where it runs", 0, 0},
      {"--workers", CV_OPTION_INT, &o->workers, "N", "workers of the job", 1, 1024},
      {"--transport", CV_OPTION_TEXT, &o->transport, "ROW", "of all edges", 0, 0},
      {"--trace", CV_OPTION_TEXT, &o->trace, "FILE", "events are kept for a trace", 0, 0},
      CV_REQUEST_OPTIONS(o->request),
      {0}};
  const cv_command command = {
      "cuvil-gateway FILE.cuv --control ADDRESS:PORT --workers N --input FILE... [OPTION...]",
      "Feeds a job with requests. Started by cuvil-worker of rank 0, not by hand.", rows, 1, 1};
  cv_log_init("gateway");
  cv_hello_fill(&s.hello, s.host);
  cv_status status = cv_options_parse(&command, argc, argv, &words);
  if (status == CV_OK && (!o->control || !o->workers))
    status = cv_error(CV_INVALID, "give --control and --workers");
  if (status == CV_OK) status = run(&s, words.data[0]);
  /* the coordinator says it; without one it is said here */
  if (status != CV_OK && (!o->control || !cv_link_give_up(s.link, o->control, &s.hello, status)))
    fprintf(stderr, "cuvil-gateway on %s: %s\n", s.host, cv_error_text());
  deinit(&s);
  cv_options_release(&command, &words);
  return cv_status_exit_code(status != CV_OK ? status : s.stop);
}
