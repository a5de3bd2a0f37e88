#include "coordinator/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/cpu_features.h"

#define SEND_NS ((int64_t)10000000000)
#define GIVE_UP_NS ((int64_t)2000000000)
#define RETRY_NS ((int64_t)50000000)

struct cv_link {
  int fd;
  cv_str in, out;
  size_t taken; /* bytes of `in` that are messages given out */
  cv_arena arena;
  char peer[64];
};

/* "ADDRESS:PORT" -> socket address. */
static cv_status parse_address(const char *text, struct sockaddr_in *out) {
  char host[64];
  const char *colon = strrchr(text, ':');
  int64_t port;
  *out = (struct sockaddr_in){.sin_family = AF_INET};
  if (!colon || (size_t)(colon - text) >= sizeof host || !cv_parse_i64(colon + 1, &port) ||
      port < 1 || port > UINT16_MAX)
    return cv_error(CV_INVALID,
                    "control address '%s': give ADDRESS:PORT, for example 10.0.0.1:4000", text);
  memcpy(host, text, (size_t)(colon - text));
  host[colon - text] = 0;
  out->sin_port = htons((uint16_t)port);
  if (inet_pton(AF_INET, host, &out->sin_addr) != 1)
    return cv_error(CV_INVALID, "control address '%s': %s is no IPv4 address", text, host);
  return CV_OK;
}

cv_status cv_link_connect(const char *address, int64_t deadline_ns, cv_link **out_link) {
  *out_link = NULL;
  struct sockaddr_in to;
  cv_status status = parse_address(address, &to);
  if (status != CV_OK) return status;
  cv_link *link = cv_alloc(1, sizeof *link);
  if (!link) return cv_error_nomem(sizeof *link);
  link->fd = -1;
  snprintf(link->peer, sizeof link->peer, "%s", address);
  for (;;) {
    link->fd = cv_fault() ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fd < 0) CV_TRY(cv_error(CV_IO, "control link: no socket: %s", strerror(errno)));
    if (connect(link->fd, (const struct sockaddr *)&to, sizeof to) == 0) break;
    int why = errno;
    close(link->fd);
    link->fd = -1;
    if (cv_clock_ns() + RETRY_NS > deadline_ns)
      CV_TRY(cv_error(CV_PEER_LOST, "the coordinator at %s cannot be reached: %s", address,
                      strerror(why)));
    cv_clock_sleep_until(cv_clock_ns() + RETRY_NS);
  }
  setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  *out_link = link;
out:
  if (status != CV_OK) cv_link_close(link);
  return status;
}

void cv_link_close(cv_link *link) {
  if (!link) return;
  if (link->fd >= 0) close(link->fd);
  cv_str_deinit(&link->in);
  cv_str_deinit(&link->out);
  cv_arena_deinit(&link->arena);
  cv_free(link);
}

int cv_link_fd(const cv_link *link) { return link->fd; }

static cv_status lost(const cv_link *link, const char *why) {
  return cv_error(CV_PEER_LOST, "the coordinator at %s is gone: %s", link->peer, why);
}

/* Waits for the socket; CV_TIMEOUT at the deadline. */
static cv_status wait_for(const cv_link *link, short events, int64_t deadline_ns) {
  for (;;) {
    int64_t left = (deadline_ns - cv_clock_ns() + 999999) / 1000000;
    struct pollfd fd = {.fd = link->fd, .events = events};
    int n = poll(&fd, 1, left < 0 ? 0 : left > 60000 ? 60000 : (int)left);
    if (n > 0) return CV_OK;
    if (n < 0 && errno != EINTR) return lost(link, strerror(errno));
    if (cv_clock_ns() >= deadline_ns)
      return cv_error(CV_TIMEOUT, "the coordinator at %s has not moved", link->peer);
  }
}

cv_status cv_link_send_trace(cv_link *link, const cv_trace_event *events, size_t count,
                             uint64_t dropped) {
  cv_msg_event sent[CV_LINK_TRACE_CHUNK];
  for (size_t i = 0; i < count; i++)
    sent[i] = (cv_msg_event){.begin = events[i].begin_ns,
                             .end = events[i].end_ns,
                             .seq = events[i].seq,
                             .number = events[i].epoch_number,
                             .stage = events[i].stage,
                             .detail = events[i].detail,
                             .kind = events[i].kind};
  const cv_msg msg = {.kind = CV_MSG_TRACE,
                      .trace = {.dropped = dropped, .events = sent, .n_events = (uint32_t)count}};
  return cv_link_send(link, &msg);
}

cv_status cv_link_send(cv_link *link, const cv_msg *msg) {
  int64_t deadline = cv_clock_ns() + SEND_NS;
  link->out.len = 0;
  cv_status status = cv_msg_encode(msg, &link->out);
  for (size_t sent = 0; status == CV_OK && sent < link->out.len;) {
    ssize_t n =
        send(link->fd, link->out.data + sent, link->out.len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
      sent += (size_t)n;
    else if (errno == EAGAIN)
      status = wait_for(link, POLLOUT, deadline);
    else if (errno != EINTR)
      status = lost(link, strerror(errno));
  }
  return status;
}

/* Reads what is there; false where nothing is. */
static cv_status read_some(cv_link *link, bool *out_any) {
  char buffer[65536];
  ssize_t n;
  *out_any = false;
  do {
    n = recv(link->fd, buffer, sizeof buffer, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN)) return CV_OK;
  if (n <= 0) return lost(link, n ? strerror(errno) : "it closed the link");
  cv_str_append(&link->in, buffer, (size_t)n);
  *out_any = true;
  return link->in.failed ? cv_error_nomem(link->in.len) : CV_OK;
}

/* Takes one whole message from what was read: CV_AGAIN if there is none. */
static cv_status take_message(cv_link *link, cv_msg *out_msg) {
  size_t there = link->in.len - link->taken, length;
  if (there < CV_MSG_PREFIX) return CV_AGAIN;
  const char *at = link->in.data + link->taken;
  cv_status status = cv_msg_length(at, there, CV_MSG_MAX, &length);
  if (status != CV_OK) return status;
  if (there < CV_MSG_PREFIX + length) return CV_AGAIN;
  cv_arena_deinit(&link->arena);
  status = cv_msg_decode(at + CV_MSG_PREFIX, length, &link->arena, out_msg);
  link->taken += CV_MSG_PREFIX + length;
  if (link->taken == link->in.len) link->taken = link->in.len = 0;
  return status;
}

static cv_status answer_ping(cv_link *link, const cv_msg_ping *ping) {
  int64_t now = cv_clock_ns();
  cv_msg pong = {.kind = CV_MSG_PONG,
                 .pong = {.id = ping->id, .sent = ping->sent, .received = now, .answered = now}};
  return cv_link_send(link, &pong);
}

cv_status cv_link_receive(cv_link *link, int64_t deadline_ns, cv_msg *out_msg) {
  for (;;) {
    cv_status status = take_message(link, out_msg);
    if (status == CV_OK && out_msg->kind == CV_MSG_PING) {
      status = answer_ping(link, &out_msg->ping);
      if (status == CV_OK) continue;
    }
    if (status != CV_AGAIN) return status;
    bool any;
    status = read_some(link, &any);
    if (status == CV_OK && !any) status = wait_for(link, POLLIN, deadline_ns);
    if (status != CV_OK) return status;
  }
}

void cv_hello_fill(cv_msg_hello *hello, char host[256]) {
  if (gethostname(host, 255) != 0) snprintf(host, 256, "unknown");
  host[255] = 0;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE),
       cores = sysconf(_SC_NPROCESSORS_ONLN);
  hello->protocol = CV_MSG_PROTOCOL;
  hello->host = host;
  hello->pid = (uint32_t)getpid();
  if (getrandom(&hello->incarnation, sizeof hello->incarnation, 0) != sizeof hello->incarnation)
    hello->incarnation = (uint64_t)cv_clock_wall_ns() * 31 + hello->pid;
  hello->version = CUVIL_VERSION;
  hello->cpu = cv_cpu_arch();
  hello->cores = cores > 0 ? (uint32_t)cores : 1;
  hello->memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

bool cv_link_give_up(cv_link *link, const char *address, const cv_msg_hello *hello,
                     cv_status status) {
  char text[4096];
  snprintf(text, sizeof text, "%s", cv_error_text());
  cv_link *own = NULL;
  cv_msg msg = {.kind = CV_MSG_FAILED, .failed = {.code = (uint32_t)status, .text = text}};
  if (!link) {
    msg = (cv_msg){.kind = CV_MSG_ABSENT,
                   .absent = {.token = hello->token,
                              .member = hello->member,
                              .host = hello->host,
                              .code = (uint32_t)status,
                              .text = text}};
    if (cv_link_connect(address, cv_clock_ns() + GIVE_UP_NS, &own) == CV_OK) link = own;
  }
  bool waits = link && cv_link_send(link, &msg) == CV_OK, heard = false;
  int64_t deadline = cv_clock_ns() + GIVE_UP_NS;
  while (waits && !heard) {
    waits = cv_link_receive(link, deadline, &msg) == CV_OK;
    heard = waits && msg.kind == CV_MSG_STOP;
  }
  cv_link_close(own);
  cv_status same = cv_error(status, "%s", text);
  (void)same; /* the caller's sentence again */
  return heard;
}

/* ---- PREPARE ---- */

static bool in_range(const cv_msg_prepare *p, int64_t stage) {
  return stage == CV_EDGE_GATEWAY || (stage >= 0 && stage < (int64_t)p->n_stages);
}

cv_status cv_prepare_edges(const cv_msg_prepare *prepare, const cv_program *program,
                           cv_edges *out_edges) {
  *out_edges = (cv_edges){0};
  cv_status status = CV_OK;
  cv_span *spans = cv_alloc(prepare->n_stages + 1, sizeof *spans);
  if (!spans) return cv_error_nomem((prepare->n_stages + 1) * sizeof *spans);
  for (uint32_t i = 0; i < prepare->n_stages; i++) {
    spans[i] = (cv_span){prepare->stages[i].first, prepare->stages[i].last};
    if (prepare->stages[i].member >= prepare->n_members)
      CV_TRY(cv_error(CV_CORRUPT, "plan %u: stage %u has no member", prepare->number, i));
  }
  CV_TRY(cv_edges_derive(program, spans, (int)prepare->n_stages, NULL, out_edges));
  bool same = out_edges->n_edges == prepare->n_edges;
  for (uint32_t e = 0; same && e < prepare->n_edges; e++) {
    const cv_msg_edge *told = &prepare->edges[e];
    same = told->from == out_edges->edges[e].from && told->to == out_edges->edges[e].to &&
           in_range(prepare, told->from) && in_range(prepare, told->to) && told->slots > 0;
    if (same) out_edges->edges[e].slots = told->slots;
  }
  if (!same)
    CV_TRY(cv_error(CV_CORRUPT, "plan %u: its edges are not those of this artifact's program",
                    prepare->number));
out:
  if (status != CV_OK) cv_edges_deinit(out_edges);
  cv_free(spans);
  return status;
}

cv_status cv_prepare_peers(const cv_msg_prepare *prepare, int stage, cv_edge_peer *out_peers) {
  for (uint32_t e = 0; e < prepare->n_edges; e++) {
    const cv_msg_edge *edge = &prepare->edges[e];
    if (edge->from != stage && edge->to != stage) continue;
    int64_t other = edge->from == stage ? edge->to : edge->from;
    uint32_t at = other == CV_EDGE_GATEWAY ? prepare->n_members - 1 : prepare->stages[other].member;
    const cv_msg_member *member = &prepare->members[at];
    const cv_msg_address *address = NULL;
    for (uint32_t i = 0; i < member->n_addresses; i++)
      if (strcmp(member->addresses[i].row, edge->row) == 0) address = &member->addresses[i];
    if (!address)
      return cv_error(CV_CORRUPT, "plan %u: %s has no address of transport %s", prepare->number,
                      member->name, edge->row);
    out_peers[e] = (cv_edge_peer){.name = member->name,
                                  .incarnation = member->incarnation,
                                  .row = edge->row,
                                  .address = address->address,
                                  .address_bytes = address->address_bytes};
  }
  return CV_OK;
}
