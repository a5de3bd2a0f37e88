/* The member's end of the control link: a TCP connection to the coordinator that carries the
 * messages of messages.def. PING is answered here. One thread. */
#ifndef CV_COORDINATOR_LINK_H
#define CV_COORDINATOR_LINK_H

#include <stdbool.h>

#include "coordinator/messages.h"
#include "runtime/executor.h" /* cv_edge_peer */
#include "runtime/trace.h"

typedef struct cv_link cv_link;

/* Connects to "ADDRESS:PORT" (numbers), trying until the deadline (monotonic). CV_INVALID;
 * CV_PEER_LOST, CV_NOMEM. Blocks. */
CV_NODISCARD cv_status cv_link_connect(const char *address, int64_t deadline_ns,
                                       cv_link **out_link);
/* Accepts NULL. */
void cv_link_close(cv_link *link);
/* Polls readable when there is something to receive. */
int cv_link_fd(const cv_link *link);

/* Sends; blocks while the coordinator takes nothing, at most 10 s. CV_PEER_LOST, CV_TIMEOUT,
 * CV_INVALID, CV_NOMEM. */
CV_NODISCARD cv_status cv_link_send(cv_link *link, const cv_msg *msg);
/* Sends trace events (at most CV_LINK_TRACE_CHUNK), and how many were dropped since the last time.
 */
enum { CV_LINK_TRACE_CHUNK = 2048 };
CV_NODISCARD cv_status cv_link_send_trace(cv_link *link, const cv_trace_event *events, size_t count,
                                          uint64_t dropped);
/* The next message, waited for until the deadline (0: not at all); its memory is the link's until
 * the next call. CV_TIMEOUT; CV_PEER_LOST: the coordinator is gone; CV_CORRUPT, CV_VERSION. */
CV_NODISCARD cv_status cv_link_receive(cv_link *link, int64_t deadline_ns, cv_msg *out_msg);

/* Fills what every HELLO says of this process and machine: protocol, host, process, a fresh
 * incarnation, version, CPU, cores, memory. `host` is room for its name. */
void cv_hello_fill(cv_msg_hello *hello, char host[256]);

/* Tells the coordinator why this process ends (this thread's sentence), by ABSENT where it has not
 * joined (`link` is NULL: one is made), else by FAILED, and waits a little until it was heard.
 * False if nobody was there. Blocks, at most some seconds. */
bool cv_link_give_up(cv_link *link, const char *address, const cv_msg_hello *hello,
                     cv_status status);

/* What a member makes of PREPARE. The edges of its plan, as the coordinator counts them.
 * CV_CORRUPT: they are not those of this program (another version?), or a number is out of range;
 * CV_INVALID, CV_NOMEM. The result is the caller's (cv_edges_deinit). */
CV_NODISCARD cv_status cv_prepare_edges(const cv_msg_prepare *prepare, const cv_program *program,
                                        cv_edges *out_edges);
/* The other end of each edge of `stage` (CV_EDGE_GATEWAY: of the gateway), [n_edges]; those of
 * others are left alone. Texts and addresses are the message's. CV_CORRUPT: a member has no address
 * of the edge's transport. After cv_prepare_edges. */
CV_NODISCARD cv_status cv_prepare_peers(const cv_msg_prepare *prepare, int stage,
                                        cv_edge_peer *out_peers);

#endif
