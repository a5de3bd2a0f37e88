#include "coordinator/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"

enum { TICK_MS = 100, BACKLOG = 1024, CONNS = 2 * CV_JOB_WORKERS };

typedef struct server server;

/* A connection; its place in the server's list is its number. */
typedef struct {
  uv_tcp_t tcp; /* first: a handle's pointer is the connection's */
  server *server;
  int id;
  bool closing, proved; /* proved: its HELLO was kept, so it may send long messages */
  cv_str in;
  char text[512]; /* why it was closed */
} connection;

struct server {
  uv_loop_t loop;
  uv_tcp_t listener;
  uv_timer_t timer;
  uv_signal_t terminate, interrupt;
  connection *conns[CONNS];
  cv_state state;
  const cv_server_events *events;
  const cv_msg_prepare *prepare;
  cv_arena arena;
  bool signaled;    /* whoever ended the job so knows it */
  bool ended, told; /* told: the verdict, when it falls: later this process may be ended */
};

static void give(server *s, cv_event *event);

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle) {
  connection *conn = (connection *)handle;
  server *s = conn->server;
  s->conns[conn->id] = NULL;
  if (!s->ended)
    give(s,
         &(cv_event){
             .kind = CV_EVENT_LEFT, .conn = conn->id, .text = conn->text[0] ? conn->text : NULL});
  cv_str_deinit(&conn->in);
  cv_free(conn);
}

static void close_conn(connection *conn, const char *why) {
  if (conn->closing) return;
  conn->closing = true;
  snprintf(conn->text, sizeof conn->text, "%s", why);
  uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

static void end(server *s) {
  if (s->ended) return;
  s->ended = true;
  for (int i = 0; i < CONNS; i++)
    if (s->conns[i]) close_conn(s->conns[i], "");
  uv_close((uv_handle_t *)&s->listener, NULL);
  uv_close((uv_handle_t *)&s->timer, NULL);
  uv_close((uv_handle_t *)&s->terminate, NULL);
  uv_close((uv_handle_t *)&s->interrupt, NULL);
}

/* ---- sending ---- */

typedef struct {
  uv_write_t request;
  cv_str bytes;
} sending;

static void on_sent(uv_write_t *request, int rc) {
  sending *out = (sending *)request;
  connection *conn = (connection *)request->handle;
  if (rc < 0 && rc != UV_ECANCELED) close_conn(conn, uv_strerror(rc));
  cv_str_deinit(&out->bytes);
  cv_free(out);
}

static void send_msg(server *s, int id, const cv_msg *msg) {
  connection *conn = id >= 0 ? s->conns[id] : NULL;
  if (!conn || conn->closing) return;
  sending *out = cv_alloc(1, sizeof *out);
  cv_status status = out ? cv_msg_encode(msg, &out->bytes) : cv_error_nomem(sizeof *out);
  if (status == CV_OK) {
    uv_buf_t buffer = {.base = out->bytes.data, .len = out->bytes.len};
    int rc = uv_write(&out->request, (uv_stream_t *)&conn->tcp, &buffer, 1, on_sent);
    if (rc == 0) return;
    status = cv_error(CV_IO, "%s", uv_strerror(rc));
  }
  close_conn(conn, cv_error_text());
  if (out) cv_str_deinit(&out->bytes);
  cv_free(out);
}

static void on_shut(uv_shutdown_t *request, int rc) {
  (void)rc;
  close_conn((connection *)request->handle, "");
  cv_free(request);
}

/* Closes when all is sent. */
static void drop(server *s, int id) {
  connection *conn = id >= 0 ? s->conns[id] : NULL;
  if (!conn || conn->closing) return;
  uv_shutdown_t *request = cv_alloc(1, sizeof *request);
  if (request && uv_shutdown(request, (uv_stream_t *)&conn->tcp, on_shut) == 0) return;
  cv_free(request);
  close_conn(conn, "");
}

/* ---- the state machine ---- */

/* Does one action; what it leads to comes back as an event, if any. */
static bool act(server *s, const cv_action *action, const cv_event *cause, cv_event *out_next) {
  cv_status status = CV_OK;
  switch (action->kind) {
    case CV_ACTION_SEND: send_msg(s, action->conn, &action->msg); break;
    case CV_ACTION_SEND_PREPARE:
      send_msg(s, action->conn, &(cv_msg){.kind = CV_MSG_PREPARE, .prepare = *s->prepare});
      break;
    case CV_ACTION_DROP:
      if (cause->msg->kind != CV_MSG_ABSENT)
        cv_log_warn("a connection to the control port was closed: it is not of this job");
      drop(s, action->conn);
      break;
    case CV_ACTION_KEEP:
      if (s->conns[cause->conn]) s->conns[cause->conn]->proved = true;
      status = s->events->keep(s->events->arg, action->member, cause->msg);
      break;
    case CV_ACTION_PLAN:
      status = s->events->plan(s->events->arg, &s->state, action->number, &s->prepare);
      break;
    case CV_ACTION_RESULTS:
      status = s->events->results(s->events->arg, &s->state, action->number);
      break;
    case CV_ACTION_END: end(s); break;
  }
  if (status == CV_OK && action->kind != CV_ACTION_PLAN) return false;
  *out_next =
      (cv_event){.kind = action->kind == CV_ACTION_PLAN ? CV_EVENT_PLANNED : CV_EVENT_FAILED,
                 .status = status,
                 .text = status == CV_OK ? "" : cv_error_text()};
  return true;
}

/* Gives an event to the state machine and does what it wants, and so on. */
static void give(server *s, cv_event *event) {
  cv_event current = *event, next = {0};
  char text[4400] = "";
  for (bool more = true; more && !s->ended;) {
    cv_actions actions = {0};
    more = false;
    current.now_ns = cv_clock_ns();
    cv_status status = cv_state_step(&s->state, &current, &actions);
    if (status != CV_OK) {
      s->state.verdict = status;
      snprintf(s->state.text, sizeof s->state.text, "%s", cv_error_text());
      end(s);
    }
    if (s->state.verdict != CV_OK && !s->told)
      cv_log_at(s->signaled ? CV_LOG_INFO : CV_LOG_ERROR, "%s", s->state.text);
    s->told = s->state.verdict != CV_OK;
    for (size_t i = 0; i < actions.len && !s->ended; i++)
      if (act(s, &actions.data[i], &current, &next)) {
        more = true;
        snprintf(text, sizeof text, "%s", next.text);
      }
    cv_vec_deinit(&actions);
    current = next;
    current.text = text;
  }
}

/* ---- receiving ---- */

/* The messages that are whole by now; false when the link cannot go on. */
static bool take_messages(connection *conn, size_t *out_taken) {
  server *s = conn->server;
  *out_taken = 0;
  for (;;) {
    const char *at = conn->in.data + *out_taken;
    size_t there = conn->in.len - *out_taken, length;
    if (there < CV_MSG_PREFIX) return true;
    cv_msg msg;
    cv_status status =
        cv_msg_length(at, there, conn->proved ? CV_MSG_MAX : CV_MSG_HELLO_MAX, &length);
    if (status == CV_OK && there < CV_MSG_PREFIX + length) return true;
    cv_arena_deinit(&s->arena);
    if (status == CV_OK) status = cv_msg_decode(at + CV_MSG_PREFIX, length, &s->arena, &msg);
    if (status == CV_OK && !conn->proved && msg.kind != CV_MSG_HELLO && msg.kind != CV_MSG_ABSENT)
      status = cv_error(CV_CORRUPT, "control link: its first message is no HELLO");
    if (status != CV_OK) {
      cv_log_warn("%s", cv_error_text());
      send_msg(s, conn->id,
               &(cv_msg){.kind = CV_MSG_STOP,
                         .stop = {.code = (uint32_t)status, .text = cv_error_text()}});
      snprintf(conn->text, sizeof conn->text, "%s", cv_error_text());
      return false;
    }
    *out_taken += CV_MSG_PREFIX + length;
    give(s, &(cv_event){.kind = CV_EVENT_MESSAGE, .conn = conn->id, .msg = &msg});
    if (conn->closing) return true;
  }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
  (void)handle;
  *out = (uv_buf_t){.base = cv_alloc(1, suggested), .len = suggested};
  if (!out->base) out->len = 0;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  connection *conn = (connection *)stream;
  if (n > 0 && !conn->closing) {
    size_t taken;
    cv_str_append(&conn->in, buffer->base, (size_t)n);
    bool good = !conn->in.failed && take_messages(conn, &taken);
    if (!good) {
      uv_read_stop(stream);
      drop(conn->server, conn->id);
    } else if (!conn->closing && taken) {
      memmove(conn->in.data, conn->in.data + taken, conn->in.len - taken);
      conn->in.len -= taken;
    }
  } else if (n < 0) {
    close_conn(conn, n == UV_EOF ? "its process has ended" : uv_strerror((int)n));
  }
  cv_free(buffer->base);
}

static void on_connection(uv_stream_t *listener, int rc) {
  server *s = listener->data;
  int id = 0;
  while (id < CONNS && s->conns[id]) id++;
  if (rc < 0 || id == CONNS || s->ended) return;
  connection *conn = cv_alloc(1, sizeof *conn);
  if (!conn) return;
  conn->server = s;
  conn->id = id;
  s->conns[id] = conn;
  uv_tcp_init(&s->loop, &conn->tcp);
  if (uv_accept(listener, (uv_stream_t *)&conn->tcp) < 0 ||
      uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) < 0)
    close_conn(conn, "it could not be accepted");
  else
    uv_tcp_nodelay(&conn->tcp, 1);
}

static void on_tick(uv_timer_t *timer) { give(timer->data, &(cv_event){.kind = CV_EVENT_TICK}); }

static void on_signal(uv_signal_t *handle, int number) {
  server *s = handle->data;
  char text[64];
  if (s->state.verdict == CV_OK) s->signaled = true;
  snprintf(text, sizeof text, "ended by signal %d", number);
  give(s, &(cv_event){.kind = CV_EVENT_FAILED, .status = CV_CANCELED, .text = text});
}

/* ---- the face ---- */

static cv_status start(server *s, int listen_fd) {
  int rc = uv_tcp_init(&s->loop, &s->listener);
  uv_timer_init(&s->loop, &s->timer);
  uv_signal_init(&s->loop, &s->terminate);
  uv_signal_init(&s->loop, &s->interrupt);
  s->listener.data = s->timer.data = s->terminate.data = s->interrupt.data = s;
  if (rc == 0) rc = uv_tcp_open(&s->listener, listen_fd);
  if (rc == 0) rc = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
  if (rc == 0) rc = uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
  if (rc == 0) rc = uv_signal_start(&s->terminate, on_signal, SIGTERM);
  if (rc == 0) rc = uv_signal_start(&s->interrupt, on_signal, SIGINT);
  return rc == 0 ? CV_OK : cv_error(CV_IO, "the control port does not work: %s", uv_strerror(rc));
}

cv_status cv_server_run(int listen_fd, const cv_job *job, const cv_server_events *events) {
  server *s = cv_alloc(1, sizeof *s);
  if (!s) return cv_error_nomem(sizeof *s);
  s->events = events;
  cv_status status = cv_state_init(&s->state, job, cv_clock_ns());
  if (status == CV_OK && uv_loop_init(&s->loop) != 0)
    status = cv_error(CV_IO, "no event loop: too many open files?");
  else if (status == CV_OK) {
    status = start(s, listen_fd);
    if (status != CV_OK) end(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    if (status == CV_OK && s->state.verdict != CV_OK)
      status = cv_error(s->state.verdict, "%s", s->state.text);
  }
  cv_state_deinit(&s->state);
  cv_arena_deinit(&s->arena);
  cv_free(s);
  return status;
}
