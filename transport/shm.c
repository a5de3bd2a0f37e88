/* Same host: records over an AF_UNIX seqpacket connection per edge, slots in a sealed memfd that
 * the consumer makes and passes over it. The end of the connection is the death of the peer. An
 * address is an abstract socket name and a token that a hello must show. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/transport_internal.h"

enum {
  BACKLOG = 4096,
  BATCH = 64,    /* events taken by one progress */
  RECORDS = 256, /* records taken from one connection by one progress */
  PARKED = 4096, /* most connections whose edge is not open here yet */
  PAGE = 4096,
};

/* What is published. */
typedef struct {
  char row[4]; /* "shm1": changes with the record's form */
  uint8_t name[16];
  uint8_t token[16];
} shm_address;

typedef enum { SOURCE_LISTENER, SOURCE_PARKED, SOURCE_CHANNEL } source_kind;

/* What an epoll event points at. */
typedef struct {
  source_kind kind;
  int fd;
} source;

/* An accepted connection that no channel here has taken yet. */
typedef struct parked {
  source source;
  struct parked *next;
  bool greeted;
  cv_record hello;
} parked;

typedef struct {
  source source; /* fd -1: not linked */
  cv_channel *channel;
  bool waiting; /* consumer, before the hello: fd only tells whether the producer lives */
  bool writing; /* polled for room to write */
  bool ended;   /* end of file was read */
  int slots_fd; /* that came with the record at hand, or -1 */
  uint8_t token[16];
} shm_link;

typedef struct {
  source listener;
  int epoll;
  shm_address address;
  parked *parked;
  uint32_t parked_count;
} shm;

/* ---- addresses ---- */

static socklen_t socket_name(const shm_address *address, struct sockaddr_un *name) {
  static const char prefix[] = "cuvil-";
  *name = (struct sockaddr_un){.sun_family = AF_UNIX};
  char *at = name->sun_path + 1;
  memcpy(at, prefix, sizeof prefix - 1);
  at += sizeof prefix - 1;
  for (size_t i = 0; i < sizeof address->name; i++) {
    *at++ = "0123456789abcdef"[address->name[i] >> 4];
    *at++ = "0123456789abcdef"[address->name[i] & 15];
  }
  return (socklen_t)(at - (char *)name);
}

static cv_status parse(const void *data, size_t size, shm_address *out_address) {
  if (size != sizeof *out_address || memcmp(data, "shm1", 4) != 0)
    return cv_error(CV_UNSUPPORTED, "transport shm: not an address of this transport's version");
  memcpy(out_address, data, sizeof *out_address);
  return CV_OK;
}

static cv_status connect_to(const shm_address *address, int *out_fd) {
  struct sockaddr_un name;
  socklen_t length = socket_name(address, &name);
  cv_status status = CV_OK;
  *out_fd = -1;
  int fd = cv_fault() ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return cv_error(CV_IO, "transport shm: socket: %s", strerror(errno));
  if (cv_fault()) {
    status = cv_error(CV_IO, "transport shm: connect failed");
  } else if (connect(fd, (struct sockaddr *)&name, length) < 0) {
    bool nobody = errno == ECONNREFUSED || errno == ENOENT;
    status = nobody ? cv_error(CV_PEER_LOST, "transport shm: nobody listens at @%s on this host",
                               name.sun_path + 1)
                    : cv_error(CV_IO, "transport shm: connect to @%s: %s", name.sun_path + 1,
                               strerror(errno));
  }
  if (status == CV_OK)
    *out_fd = fd;
  else
    close(fd);
  return status;
}

static cv_status watch(shm *row, int op, source *what, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = what};
  if (cv_fault() || epoll_ctl(row->epoll, op, what->fd, &event) < 0)
    return cv_error(CV_IO, "transport shm: epoll: %s", strerror(errno));
  return CV_OK;
}

/* ---- slots ---- */

static size_t page_up(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static cv_status map(cv_channel *channel, cv_slots *slots, int fd) {
  size_t headers = page_up(channel->header_area * channel->params.slots);
  size_t bytes = headers + page_up(cv_slots_data_bytes(channel, slots));
  int flags = MAP_SHARED | MAP_POPULATE;
  void *at = cv_fault() ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED)
    return cv_error(CV_NOMEM, "transport shm: mapping %zu bytes: %s", bytes, strerror(errno));
  slots->memory = at;
  slots->memory_bytes = bytes;
  slots->headers = at;
  slots->data = (uint8_t *)at + headers;
  return CV_OK;
}

static cv_status shm_slots_make(cv_channel *channel, cv_slots *slots) {
  size_t bytes = page_up(channel->header_area * channel->params.slots) +
                 page_up(cv_slots_data_bytes(channel, slots));
  int fd = cv_fault() ? -1 : memfd_create("cuvil-slots", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return cv_error(CV_IO, "transport shm: memfd: %s", strerror(errno));
  slots->fd = fd; /* closed by slots_free or once announced */
  /* all pages now, so that full memory is a status here and no SIGBUS later */
  if (cv_fault() || ftruncate(fd, (off_t)bytes) < 0 || fallocate(fd, 0, 0, (off_t)bytes) < 0)
    return cv_error(CV_NOMEM, "transport shm: %zu bytes of shared memory: %s", bytes,
                    strerror(errno));
  if (cv_fault() || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
    return cv_error(CV_IO, "transport shm: sealing: %s", strerror(errno));
  return map(channel, slots, fd);
}

static cv_status shm_slots_view(cv_channel *channel, const cv_record *record, cv_slots *slots) {
  (void)record;
  const shm_link *link = channel->row_state;
  int fd = link->slots_fd;
  off_t bytes = (off_t)(page_up(channel->header_area * channel->params.slots) +
                        page_up(cv_slots_data_bytes(channel, slots)));
  int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || lseek(fd, 0, SEEK_END) != bytes)
    return cv_error(CV_CORRUPT, "transport shm: the consumer's memory is not sealed at %jd bytes",
                    (intmax_t)bytes);
  return map(channel, slots, fd);
}

static void shm_slots_free(cv_channel *channel, cv_slots *slots) {
  (void)channel;
  if (slots->memory != NULL) munmap(slots->memory, slots->memory_bytes);
  if (slots->fd >= 0) close(slots->fd);
  slots->memory = NULL;
  slots->fd = -1;
}

/* ---- records ---- */

/* CV_AGAIN when there is no room; the end of the link is left for receive to find. */
static cv_status transmit(shm_link *link, const cv_record *record, int pass_fd) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {0};
  struct iovec part = {.iov_base = (void *)(uintptr_t)record, .iov_len = sizeof *record};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (pass_fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &pass_fd, sizeof pass_fd);
  }
  __sync_synchronize(); /* the slot is written before the record tells of it */
  if (cv_fault()) return cv_error(CV_IO, "transport shm: sendmsg failed");
  if (sendmsg(link->source.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return CV_OK;
  if (errno == EAGAIN || errno == EINTR || errno == EPIPE || errno == ECONNRESET) return CV_AGAIN;
  return cv_error(CV_IO, "transport shm: sendmsg: %s", strerror(errno));
}

static cv_status shm_put(cv_channel *channel, cv_record *record) {
  shm *row = channel->transport->row_state;
  shm_link *link = channel->row_state;
  if (link->source.fd < 0 || link->waiting) return CV_AGAIN;
  cv_slots *slots = NULL;
  if (record->type == CV_RECORD_SLOTS) slots = cv_slots_find(channel, record->generation);
  memcpy(record->token, link->token, sizeof record->token);
  cv_status status = transmit(link, record, slots == NULL ? -1 : slots->fd);
  if (status == CV_OK && slots != NULL) {
    close(slots->fd);
    slots->fd = -1;
  }
  if (status == CV_AGAIN && !link->writing && !link->ended) {
    cv_status watched = watch(row, EPOLL_CTL_MOD, &link->source, EPOLLIN | EPOLLOUT);
    if (watched != CV_OK) return watched;
    link->writing = true;
  }
  return status;
}

typedef enum { GOT_RECORD, GOT_NOTHING, GOT_END, GOT_DAMAGE } received;

/* Takes one record; a descriptor that came along goes to *out_fd. */
static received receive(int socket_fd, cv_record *record, int *out_fd) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {0};
  *out_fd = -1;
  struct iovec part = {.iov_base = record, .iov_len = sizeof *record};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t size;
  if (cv_fault()) return GOT_DAMAGE;
  do {
    /* ECONNRESET: the peer closed with our records unread; its last ones still lie here */
    size = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return errno == EAGAIN ? GOT_NOTHING : GOT_END;
  if (size == 0) return GOT_END;
  __sync_synchronize(); /* and read behind it */
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
      head->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(out_fd, CMSG_DATA(head), sizeof *out_fd);
  bool whole = (size_t)size == sizeof *record && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  return whole && record->magic == CV_RECORD_MAGIC ? GOT_RECORD : GOT_DAMAGE;
}

/* ---- links ---- */

static void detach(cv_channel *channel) {
  shm *row = channel->transport->row_state;
  shm_link *link = channel->row_state;
  if (link->source.fd < 0) return;
  (void)epoll_ctl(row->epoll, EPOLL_CTL_DEL, link->source.fd, NULL);
  close(link->source.fd);
  link->source.fd = -1;
}

static cv_status attach(cv_channel *channel, int fd) {
  shm_link *link = channel->row_state;
  detach(channel);
  link->waiting = false;
  link->source.fd = fd;
  cv_status status = watch(channel->transport->row_state, EPOLL_CTL_ADD, &link->source, EPOLLIN);
  if (status != CV_OK) link->source.fd = -1;
  return status;
}

/* Hands a greeted connection to the channel it is for; the parked record dies. */
static void adopt(shm *row, parked *guest, cv_channel *channel) {
  parked **at = &row->parked;
  while (*at != guest) at = &(*at)->next;
  *at = guest->next;
  row->parked_count--;
  int fd = guest->source.fd;
  (void)epoll_ctl(row->epoll, EPOLL_CTL_DEL, fd, NULL);
  cv_status status = channel == NULL ? CV_CANCELED : attach(channel, fd);
  if (status != CV_OK) close(fd);
  if (channel != NULL && status != CV_OK)
    cv_channel_fail(channel, status, cv_error_text());
  else if (channel != NULL)
    cv_channel_take(channel, &guest->hello);
  cv_free(guest);
}

static cv_status shm_link_open(cv_channel *channel, const void *peer, size_t size) {
  shm *row = channel->transport->row_state;
  shm_address address;
  cv_status status = parse(peer, size, &address);
  if (status != CV_OK) return status;
  shm_link *link = cv_alloc(1, sizeof *link);
  if (link == NULL) return cv_error_nomem(sizeof *link);
  int fd = -1;
  link->source = (source){SOURCE_CHANNEL, -1};
  link->channel = channel;
  link->slots_fd = -1;
  channel->row_state = link;
  memcpy(link->token, address.token, sizeof link->token);
  CV_TRY(connect_to(&address, &fd));
  CV_TRY(attach(channel, fd));
  link->waiting = channel->params.role == CV_CONSUMER;
  fd = -1;
  for (parked *guest = row->parked; channel->params.role == CV_CONSUMER && guest != NULL;
       guest = guest->next) {
    if (!guest->greeted || !cv_edge_same(&guest->hello.id, &channel->params.id)) continue;
    adopt(row, guest, channel);
    break;
  }
out:
  if (fd >= 0) close(fd);
  if (status != CV_OK) {
    cv_free(link);
    channel->row_state = NULL;
  }
  return status;
}

static void shm_link_close(cv_channel *channel) {
  detach(channel);
  cv_free(channel->row_state);
  channel->row_state = NULL;
  cv_channel_unlinked(channel);
}

/* ---- progress ---- */

/* Whether the process at the other end is of our user, or root's. */
static bool is_ours(int fd) {
  struct ucred who;
  socklen_t size = sizeof who;
  if (cv_fault() || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0) return false;
  return who.uid == geteuid() || who.uid == 0;
}

static cv_status park(shm *row, int fd) {
  if (!is_ours(fd)) return cv_error(CV_INVALID, "it is not known to be of our user");
  if (row->parked_count >= PARKED) return cv_error(CV_FAILED, "%d wait already", PARKED);
  parked *guest = cv_alloc(1, sizeof *guest);
  if (guest == NULL) return cv_error_nomem(sizeof *guest);
  guest->source = (source){SOURCE_PARKED, fd};
  cv_status status = watch(row, EPOLL_CTL_ADD, &guest->source, EPOLLIN);
  if (status != CV_OK) {
    cv_free(guest);
    return status;
  }
  guest->next = row->parked;
  row->parked = guest;
  row->parked_count++;
  return CV_OK;
}

static size_t take_connections(shm *row) {
  size_t work = 0;
  for (; work < BATCH; work++) {
    int fd = cv_fault() ? -1 : accept4(row->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) break;
    if (park(row, fd) == CV_OK) continue;
    cv_log_warn("transport shm: a connection was refused: %s", cv_error_text());
    close(fd);
  }
  return work;
}

/* The first record must be a hello with our token; anything after it waits for the channel. */
static void take_greeting(cv_transport *transport, parked *guest) {
  shm *row = transport->row_state;
  int fd = -1;
  if (guest->greeted) { /* it can only have ended: a producer says nothing before slots come */
    adopt(row, guest, NULL);
    return;
  }
  received got = receive(guest->source.fd, &guest->hello, &fd);
  if (fd >= 0) close(fd);
  if (got == GOT_NOTHING) return;
  if (got != GOT_RECORD || guest->hello.type != CV_RECORD_HELLO ||
      memcmp(guest->hello.token, row->address.token, sizeof row->address.token) != 0) {
    adopt(row, guest, NULL);
    return;
  }
  guest->greeted = true;
  cv_channel *channel = cv_transport_awaiting(transport, &guest->hello.id);
  if (channel != NULL) adopt(row, guest, channel);
}

static size_t take_records(shm *row, shm_link *link) {
  cv_channel *channel = link->channel;
  size_t work = 0;
  while (work < RECORDS && !link->ended) {
    cv_record record;
    received got = receive(link->source.fd, &record, &link->slots_fd);
    if (got == GOT_NOTHING) break;
    work++;
    if (got == GOT_RECORD) cv_channel_take(channel, &record);
    if (got == GOT_DAMAGE)
      cv_channel_fail(channel, CV_CORRUPT, "transport shm: a damaged record came");
    if (got == GOT_END) {
      link->ended = true;
      (void)epoll_ctl(row->epoll, EPOLL_CTL_DEL, link->source.fd, NULL);
      cv_channel_peer_gone(channel, "its connection ended");
    }
    if (link->slots_fd >= 0) close(link->slots_fd);
    link->slots_fd = -1;
  }
  return work;
}

static size_t serve_link(shm *row, shm_link *link, uint32_t events) {
  size_t work = 0;
  if (events & (uint32_t)~EPOLLOUT) work = take_records(row, link);
  if (!(events & EPOLLOUT) || !link->writing || link->ended) return work;
  cv_status status = watch(row, EPOLL_CTL_MOD, &link->source, EPOLLIN);
  if (status != CV_OK) cv_channel_fail(link->channel, status, cv_error_text());
  link->writing = status != CV_OK;
  cv_channel_wake(link->channel);
  return work + 1;
}

static size_t shm_progress(cv_transport *transport) {
  shm *row = transport->row_state;
  struct epoll_event events[BATCH];
  int count = epoll_wait(row->epoll, events, BATCH, 0);
  size_t work = 0;
  for (int i = 0; i < count; i++) {
    source *what = events[i].data.ptr;
    switch (what->kind) {
      case SOURCE_LISTENER: work += take_connections(row); break;
      case SOURCE_PARKED:
        take_greeting(transport, (parked *)(void *)what);
        work++;
        break;
      case SOURCE_CHANNEL:
        work += serve_link(row, (shm_link *)(void *)what, events[i].events);
        break;
    }
  }
  return work;
}

/* The epoll descriptor is level triggered: it is readable as long as anything is to be done. */
static cv_status shm_arm(cv_transport *transport) {
  (void)transport;
  return CV_OK;
}

static int shm_fd(const cv_transport *transport) {
  return ((const shm *)transport->row_state)->epoll;
}

static cv_status shm_address_get(const cv_transport *transport, void *buffer, size_t cap,
                                 size_t *out_size) {
  const shm *row = transport->row_state;
  if (cap < sizeof row->address)
    return cv_error(CV_INVALID, "transport shm: %zu bytes are too few for an address", cap);
  memcpy(buffer, &row->address, sizeof row->address);
  *out_size = sizeof row->address;
  return CV_OK;
}

static cv_status shm_reach(cv_transport *transport, const void *address, size_t size) {
  (void)transport;
  shm_address parsed;
  int fd;
  cv_status status = parse(address, size, &parsed);
  if (status == CV_OK) status = connect_to(&parsed, &fd);
  if (status == CV_OK) close(fd);
  return status;
}

static void shm_close(cv_transport *transport) {
  shm *row = transport->row_state;
  while (row->parked != NULL) adopt(row, row->parked, NULL);
  if (row->listener.fd >= 0) close(row->listener.fd);
  if (row->epoll >= 0) close(row->epoll);
  cv_free(row);
}

static cv_status listen_here(shm *row) {
  struct sockaddr_un name;
  memcpy(row->address.row, "shm1", 4);
  uint8_t secret[sizeof row->address.name + sizeof row->address.token];
  if (cv_fault() || getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
    return cv_error(CV_IO, "getrandom: %s", strerror(errno));
  memcpy(row->address.name, secret, sizeof row->address.name);
  memcpy(row->address.token, secret + sizeof row->address.name, sizeof row->address.token);
  socklen_t length = socket_name(&row->address, &name);
  row->epoll = cv_fault() ? -1 : epoll_create1(EPOLL_CLOEXEC);
  if (row->epoll < 0) return cv_error(CV_IO, "epoll: %s", strerror(errno));
  int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
  row->listener = (source){SOURCE_LISTENER, cv_fault() ? -1 : socket(AF_UNIX, type, 0)};
  if (row->listener.fd < 0) return cv_error(CV_IO, "socket: %s", strerror(errno));
  if (cv_fault() || bind(row->listener.fd, (struct sockaddr *)&name, length) < 0 ||
      listen(row->listener.fd, BACKLOG) < 0)
    return cv_error(CV_IO, "listening at @%s: %s", name.sun_path + 1, strerror(errno));
  return watch(row, EPOLL_CTL_ADD, &row->listener, EPOLLIN);
}

static cv_status shm_open_row(cv_transport *transport, cv_hub *hub) {
  (void)hub;
  shm *row = cv_alloc(1, sizeof *row);
  if (row == NULL) return cv_error_nomem(sizeof *row);
  row->epoll = row->listener.fd = -1;
  transport->row_state = row;
  cv_status status = listen_here(row);
  if (status != CV_OK) shm_close(transport);
  return status;
}

const cv_transport_row cv_row_shm = {
    .name = "shm",
    .kinds = 1 << CV_MEMORY_SHARED,
    .own_memory = CV_MEMORY_SHARED,
    .shares = true,
    .open = shm_open_row,
    .close = shm_close,
    .address = shm_address_get,
    .reach = shm_reach,
    .fd = shm_fd,
    .arm = shm_arm,
    .progress = shm_progress,
    .link = shm_link_open,
    .unlink = shm_link_close,
    .put = shm_put,
    .slots_make = shm_slots_make,
    .slots_view = shm_slots_view,
    .slots_free = shm_slots_free,
};
