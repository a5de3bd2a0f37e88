/* The reference row: two threads of one process, each with its own transport. Records go through a
 * pipe of two bounded rings under a lock; slots are one block that both ends hold. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/vec.h"
#include "transport/transport_internal.h"

/* Wakes one transport; held by it and by the pipes that lead to it. */
typedef struct {
  atomic_int refs;
  atomic_bool signaled;
  int fd; /* eventfd */
} port;

typedef struct {
  cv_record *records;
  uint32_t head, len;
  bool starved; /* its writer found it full and wants a signal */
} ring;

/* The link of one edge; ends indexed by cv_role. */
typedef struct {
  pthread_mutex_t lock; /* over all but id */
  cv_edge_id id;
  uint32_t cap;  /* of each ring */
  ring rings[2]; /* by reading role */
  port *ports[2];
  bool joined[2], left[2];
} pipe_link;

struct cv_hub {
  pthread_mutex_t lock;
  uint64_t id;                 /* its address, to tell hubs apart */
  cv_vec(pipe_link *) waiting; /* one end only */
};

/* Slot memory of one generation, held by both ends and by a record under way. */
typedef struct {
  atomic_int refs;
  uint8_t *headers, *data;
  const cv_slot_memory *memory;
} block;

typedef struct {
  cv_hub *hub;
  port *port;
} inproc;

/* ---- blocks ---- */

static void block_drop(block *held) {
  if (held == NULL || atomic_fetch_sub(&held->refs, 1) != 1) return;
  cv_free(held->headers);
  if (held->memory == NULL)
    cv_free(held->data);
  else if (held->data != NULL)
    held->memory->free(held->memory->arg, held->data);
  cv_free(held);
}

static cv_status inproc_slots_make(cv_channel *channel, cv_slots *slots) {
  block *made = cv_alloc(1, sizeof *made);
  if (made == NULL) return cv_error_nomem(sizeof *made);
  atomic_init(&made->refs, 1);
  made->memory = channel->params.memory;
  slots->memory = made;
  cv_status status = cv_slots_alloc(channel, slots);
  made->headers = slots->headers;
  made->data = slots->data;
  return status;
}

static cv_status inproc_slots_view(cv_channel *channel, const cv_record *record, cv_slots *slots) {
  (void)channel;
  block *seen = (block *)(uintptr_t)record->block; /* the record's hold passes to the slots */
  slots->memory = seen;
  slots->headers = seen->headers;
  slots->data = seen->data;
  return CV_OK;
}

static void inproc_slots_free(cv_channel *channel, cv_slots *slots) {
  (void)channel;
  block_drop(slots->memory);
}

/* ---- ports and hubs ---- */

static void port_drop(port *held) {
  if (held == NULL || atomic_fetch_sub(&held->refs, 1) != 1) return;
  close(held->fd);
  cv_free(held);
}

static void port_signal(port *target) {
  if (target == NULL || atomic_exchange(&target->signaled, true)) return;
  /* fails only when the counter is full, and then the descriptor is readable */
  if (eventfd_write(target->fd, 1) < 0) return;
}

cv_status cv_hub_create(cv_hub **out_hub) {
  *out_hub = NULL;
  cv_hub *hub = cv_alloc(1, sizeof *hub);
  if (hub == NULL) return cv_error_nomem(sizeof *hub);
  pthread_mutex_init(&hub->lock, NULL);
  hub->id = (uint64_t)(uintptr_t)hub;
  *out_hub = hub;
  return CV_OK;
}

/* ---- pipes ---- */

static void pipe_destroy(pipe_link *pipe) {
  for (int role = 0; role < 2; role++) {
    for (uint32_t i = 0; i < pipe->rings[role].len; i++) {
      const cv_record *record =
          &pipe->rings[role].records[(pipe->rings[role].head + i) % pipe->cap];
      if (record->type == CV_RECORD_SLOTS) block_drop((block *)(uintptr_t)record->block);
    }
    cv_free(pipe->rings[role].records);
    port_drop(pipe->ports[role]);
  }
  pthread_mutex_destroy(&pipe->lock);
  cv_free(pipe);
}

void cv_hub_destroy(cv_hub *hub) {
  if (hub == NULL) return;
  for (size_t i = 0; i < hub->waiting.len; i++) pipe_destroy(hub->waiting.data[i]);
  cv_vec_deinit(&hub->waiting);
  pthread_mutex_destroy(&hub->lock);
  cv_free(hub);
}

static cv_status pipe_create(const cv_channel *channel, pipe_link **out_pipe) {
  *out_pipe = NULL;
  pipe_link *pipe = cv_alloc(1, sizeof *pipe);
  if (pipe == NULL) return cv_error_nomem(sizeof *pipe);
  pthread_mutex_init(&pipe->lock, NULL);
  pipe->id = channel->params.id;
  pipe->cap = channel->params.slots + 8;
  for (int role = 0; role < 2; role++) {
    pipe->rings[role].records = cv_alloc(pipe->cap, sizeof(cv_record));
    if (pipe->rings[role].records == NULL) {
      cv_status status = cv_error_nomem(pipe->cap * sizeof(cv_record));
      pipe_destroy(pipe);
      return status;
    }
  }
  *out_pipe = pipe;
  return CV_OK;
}

/* Finds the pipe of this edge that lacks this role, or NULL. Under the hub's lock. */
static pipe_link *take_waiting(cv_hub *hub, const cv_edge_id *id, cv_role role) {
  for (size_t i = 0; i < hub->waiting.len; i++) {
    pipe_link *pipe = hub->waiting.data[i];
    if (!cv_edge_same(&pipe->id, id) || pipe->joined[role]) continue;
    hub->waiting.data[i] = hub->waiting.data[--hub->waiting.len];
    return pipe;
  }
  return NULL;
}

static void forget_waiting(cv_hub *hub, const pipe_link *pipe) {
  size_t i = 0;
  while (i < hub->waiting.len && hub->waiting.data[i] != pipe) i++;
  if (i < hub->waiting.len) hub->waiting.data[i] = hub->waiting.data[--hub->waiting.len];
}

static cv_status parse(const inproc *row, const void *address, size_t size) {
  uint64_t id;
  if (size != sizeof id || (memcpy(&id, address, size), id != row->hub->id))
    return cv_error(CV_UNSUPPORTED, "transport inproc: the address is not of this process's hub");
  return CV_OK;
}

static cv_status inproc_link(cv_channel *channel, const void *peer, size_t size) {
  inproc *row = channel->transport->row_state;
  cv_role role = channel->params.role;
  cv_status status = parse(row, peer, size);
  if (status != CV_OK) return status;
  cv_hub *hub = row->hub;
  pthread_mutex_lock(&hub->lock);
  pipe_link *pipe = take_waiting(hub, &channel->params.id, role);
  bool found = pipe != NULL;
  if (!found) CV_TRY(pipe_create(channel, &pipe));
  if (!found && !cv_vec_push(&hub->waiting, pipe)) {
    pipe_destroy(pipe);
    status = cv_error_nomem(sizeof(pipe_link *));
    goto out;
  }
  pthread_mutex_lock(&pipe->lock);
  pipe->joined[role] = true;
  pipe->ports[role] = row->port;
  atomic_fetch_add(&row->port->refs, 1);
  port_signal(pipe->ports[!role]);
  pthread_mutex_unlock(&pipe->lock);
  channel->row_state = pipe;
out:
  pthread_mutex_unlock(&hub->lock);
  return status;
}

static void inproc_unlink(cv_channel *channel) {
  inproc *row = channel->transport->row_state;
  pipe_link *pipe = channel->row_state;
  cv_role role = channel->params.role;
  pthread_mutex_lock(&row->hub->lock);
  pthread_mutex_lock(&pipe->lock);
  pipe->left[role] = true;
  bool last = !pipe->joined[!role] || pipe->left[!role];
  if (!pipe->joined[!role]) forget_waiting(row->hub, pipe);
  port_signal(pipe->ports[!role]);
  pthread_mutex_unlock(&pipe->lock);
  pthread_mutex_unlock(&row->hub->lock);
  if (last) pipe_destroy(pipe);
  channel->row_state = NULL;
  cv_channel_unlinked(channel);
}

static cv_status inproc_put(cv_channel *channel, cv_record *record) {
  pipe_link *pipe = channel->row_state;
  cv_role reader = !channel->params.role;
  cv_status status = CV_AGAIN;
  if (cv_fault()) return cv_error(CV_IO, "transport inproc: a record could not be put");
  pthread_mutex_lock(&pipe->lock);
  ring *to = &pipe->rings[reader];
  if (pipe->joined[reader] && !pipe->left[reader] && to->len < pipe->cap) {
    if (record->type == CV_RECORD_SLOTS) {
      const cv_slots *slots = cv_slots_find(channel, record->generation);
      record->block = (uint64_t)(uintptr_t)slots->memory;
      atomic_fetch_add(&((block *)slots->memory)->refs, 1);
    }
    to->records[(to->head + to->len++) % pipe->cap] = *record;
    port_signal(pipe->ports[reader]);
    status = CV_OK;
  } else {
    to->starved = true;
  }
  pthread_mutex_unlock(&pipe->lock);
  return status;
}

/* ---- progress ---- */

static bool take_record(cv_channel *channel, cv_record *out_record) {
  pipe_link *pipe = channel->row_state;
  cv_role role = channel->params.role;
  bool gone = false, writable = false, found = false;
  pthread_mutex_lock(&pipe->lock);
  ring *from = &pipe->rings[role];
  found = from->len > 0;
  if (found) {
    *out_record = from->records[from->head];
    from->head = (from->head + 1) % pipe->cap;
    from->len--;
    if (from->starved) port_signal(pipe->ports[!role]);
  } else {
    gone = pipe->joined[!role] && pipe->left[!role];
  }
  ring *to = &pipe->rings[!role];
  if (to->starved && pipe->joined[!role] && to->len < pipe->cap) {
    writable = true;
    to->starved = false;
  }
  pthread_mutex_unlock(&pipe->lock);
  if (writable) cv_channel_wake(channel);
  if (gone) cv_channel_peer_gone(channel, "its end of the pipe was closed");
  return found;
}

/* The hold of a SLOTS record that the channel did not take over ends here. */
static void drop_unless_viewed(cv_channel *channel, const cv_record *record) {
  block *held = (block *)(uintptr_t)record->block;
  const cv_slots *slots = cv_slots_find(channel, record->generation);
  if (slots == NULL || slots->memory != held) block_drop(held);
}

static size_t inproc_progress(cv_transport *transport) {
  inproc *row = transport->row_state;
  eventfd_t count;
  if (!atomic_load(&row->port->signaled)) return 0;
  /* descriptor first: a signal in between writes it again */
  if (eventfd_read(row->port->fd, &count) < 0) count = 0;
  atomic_store(&row->port->signaled, false);
  size_t work = 0;
  for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next) {
    cv_record record;
    while (channel->row_state != NULL && take_record(channel, &record)) {
      cv_channel_take(channel, &record);
      if (record.type == CV_RECORD_SLOTS) drop_unless_viewed(channel, &record);
      work++;
    }
  }
  return work;
}

static cv_status inproc_arm(cv_transport *transport) {
  const inproc *row = transport->row_state;
  return atomic_load(&row->port->signaled) ? CV_AGAIN : CV_OK;
}

static int inproc_fd(const cv_transport *transport) {
  return ((const inproc *)transport->row_state)->port->fd;
}

static cv_status inproc_address(const cv_transport *transport, void *buffer, size_t cap,
                                size_t *out_size) {
  const inproc *row = transport->row_state;
  if (cap < sizeof row->hub->id)
    return cv_error(CV_INVALID, "transport inproc: %zu bytes are too few for an address", cap);
  memcpy(buffer, &row->hub->id, sizeof row->hub->id);
  *out_size = sizeof row->hub->id;
  return CV_OK;
}

static cv_status inproc_reach(cv_transport *transport, const void *address, size_t size) {
  return parse(transport->row_state, address, size);
}

static void inproc_close(cv_transport *transport) {
  inproc *row = transport->row_state;
  port_drop(row->port);
  cv_free(row);
}

static cv_status inproc_open(cv_transport *transport, cv_hub *hub) {
  if (hub == NULL) return cv_error(CV_INVALID, "no hub to meet at");
  cv_status status = CV_OK;
  inproc *row = cv_alloc(1, sizeof *row);
  port *own = cv_alloc(1, sizeof *own);
  if (row == NULL || own == NULL) {
    status = cv_error_nomem(sizeof *row + sizeof *own);
    goto out;
  }
  atomic_init(&own->refs, 1);
  own->fd = cv_fault() ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (own->fd < 0) {
    status = cv_error(CV_IO, "eventfd: %s", strerror(errno));
    goto out;
  }
  row->hub = hub;
  row->port = own;
  transport->row_state = row;
out:
  if (status != CV_OK) {
    cv_free(own);
    cv_free(row);
  }
  return status;
}

const cv_transport_row cv_row_inproc = {
    .name = "inproc",
    .kinds = 1 << CV_MEMORY_HOST | 1 << CV_MEMORY_PINNED | 1 << CV_MEMORY_DEVICE,
    .own_memory = CV_MEMORY_HOST,
    .shares = true,
    .open = inproc_open,
    .close = inproc_close,
    .address = inproc_address,
    .reach = inproc_reach,
    .fd = inproc_fd,
    .arm = inproc_arm,
    .progress = inproc_progress,
    .link = inproc_link,
    .unlink = inproc_unlink,
    .put = inproc_put,
    .slots_make = inproc_slots_make,
    .slots_view = inproc_slots_view,
    .slots_free = inproc_slots_free,
};
