/* TLS 1.3 with pre-shared keys over memory: no sockets, no certificates, no tickets, no early data.
 * Both ends prove that they know one secret; each connection has fresh keys of its own, so that a
 * secret that leaks later opens nothing that was said before, and a replayed hello opens nothing.
 *
 * A session is a pipe with four ends: bytes of the wire in (feed) and out (take), plain bytes out
 * (read) and in (write). After any call look whether there is something to take.
 *
 * Threads: a context may be used by several, a session by one. Nothing here blocks. */
#ifndef CV_BASE_SECURE_H
#define CV_BASE_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
  CV_SECRET_MIN = 32, /* bytes of a secret */
  CV_SECRET_MAX = 64,
  CV_IDENTITY_MAX = 32,     /* characters of an identity */
  CV_SECURE_HELD = 65536,   /* most bytes of the wire that a session holds unread */
  CV_SECURE_HELLO = 16384,  /* most bytes that it takes from a peer that has proved nothing yet */
  CV_SECURE_RECORD = 16384, /* plain bytes that travel together */
};

/* ---- secrets ---- */

/* Who one is, and what proves it. */
typedef struct {
  char identity[CV_IDENTITY_MAX + 1];
  uint8_t secret[CV_SECRET_MAX];
  size_t secret_bytes;
} cv_secure_key;

/* A key of hex digits, 64 to 128. CV_INVALID; the sentence does not repeat them. */
CV_NODISCARD cv_status cv_secret_parse(const char *identity, const char *hex,
                                       cv_secure_key *out_key);
/* A key from a file of one line of hex digits. CV_IO; CV_INVALID: not such a line, or others than
 * the file's owner have rights on it. */
CV_NODISCARD cv_status cv_secret_read(const char *path, const char *identity,
                                      cv_secure_key *out_key);
/* Writes a new random secret of 32 bytes into a new file that only its owner may read. CV_IO; an
 * existing file is never touched. */
CV_NODISCARD cv_status cv_secret_make(const char *path);
/* Overwrites the secret in memory. */
void cv_secret_wipe(cv_secure_key *key);

/* ---- contexts ---- */

typedef struct cv_secure cv_secure;

/* The accepting side, which knows several identities, each with a secret of its own. Keys are
 * copied. CV_INVALID, CV_NOMEM. */
CV_NODISCARD cv_status cv_secure_server_create(const cv_secure_key *keys, size_t count,
                                               cv_secure **out_secure);
/* The connecting side with the one identity that it proves. */
CV_NODISCARD cv_status cv_secure_client_create(const cv_secure_key *key, cv_secure **out_secure);
/* After all its sessions; accepts NULL. */
void cv_secure_destroy(cv_secure *secure);

/* ---- sessions ---- */

typedef struct cv_secure_session cv_secure_session;

typedef enum {
  CV_SECURE_HANDSHAKING,
  CV_SECURE_READY,  /* both ends have proved their secret */
  CV_SECURE_ENDED,  /* the peer said that nothing follows; what came before was read */
  CV_SECURE_FAILED, /* see cv_secure_text; an alert for the peer may be there to take */
} cv_secure_state;

/* CV_NOMEM. A client's hello is there to take at once. */
CV_NODISCARD cv_status cv_secure_session_create(cv_secure *secure, cv_secure_session **out_session);
void cv_secure_session_destroy(cv_secure_session *session);

cv_secure_state cv_secure_session_state(const cv_secure_session *session);
/* Why it failed, "" if it did not. */
const char *cv_secure_text(const cv_secure_session *session);
/* Which identity the two ends share, NULL until ready. */
const char *cv_secure_identity(const cv_secure_session *session);

/* Bytes from the wire, in pieces of any size; moves the handshake. *out_taken is less than `size`
 * when CV_SECURE_HELD are held: read first. CV_INVALID: the peer does not know the secret;
 * CV_CORRUPT: it does not speak this protocol; CV_NOMEM; again for ever once the session failed. */
CV_NODISCARD cv_status cv_secure_feed(cv_secure_session *session, const void *bytes, size_t size,
                                      size_t *out_taken);
/* The same without a copy: room for *out_size bytes (0: read first, or out of memory, as fed(0)
 * then says), and how many were put there. */
void *cv_secure_room(cv_secure_session *session, size_t *out_size);
CV_NODISCARD cv_status cv_secure_fed(cv_secure_session *session, size_t size);
/* Whether bytes were fed that nobody has read: read again before waiting for more. */
bool cv_secure_holds(const cv_secure_session *session);

/* Bytes for the wire: copies up to `cap` of them, returns how many. */
size_t cv_secure_take(cv_secure_session *session, void *buffer, size_t cap);
/* The same without a copy: those that wait (valid until the next call), and how many were sent. */
const void *cv_secure_waiting(const cv_secure_session *session, size_t *out_size);
void cv_secure_taken(cv_secure_session *session, size_t size);

/* Up to `cap` plain bytes, at most CV_SECURE_RECORD. CV_AGAIN: none yet; CV_CANCELED: the peer
 * ended it; else as feed. */
CV_NODISCARD cv_status cv_secure_read(cv_secure_session *session, void *buffer, size_t cap,
                                      size_t *out_size);
/* Takes plain bytes; *out_taken may be less than `size`. CV_AGAIN: not ready, or take first; then
 * call again with the same bytes. */
CV_NODISCARD cv_status cv_secure_write(cv_secure_session *session, const void *bytes, size_t size,
                                       size_t *out_taken);
/* Tells the peer that nothing follows (close_notify). */
void cv_secure_finish(cv_secure_session *session);

#endif
