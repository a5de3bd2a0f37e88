#include "base/secure.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
  FIRST_CAP = 2048, /* buffers start so, a handshake needs no more */
  OVERHEAD = 256,   /* more than TLS adds to a record */
  SPARE = 1024,     /* kept for what TLS says by itself */
  OUT_MAX = 4 * (CV_SECURE_RECORD + OVERHEAD) + SPARE,
  TEXT_MAX = 256,
};

static const char suites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
static const uint8_t key_suite[2] = {0x13, 0x01}; /* the first of them: ties a key to SHA-256 */

/* Bytes [head, tail) of data wait. */
typedef struct {
  uint8_t *data;
  size_t cap, max, head, tail;
} buffer;

struct cv_secure {
  SSL_CTX *context;
  BIO_METHOD *wire;
  bool server;
  cv_secure_key *keys;
  size_t n_keys;
};

struct cv_secure_session {
  cv_secure *secure;
  SSL *ssl;
  buffer in, out; /* of the wire */
  size_t heard;   /* bytes fed before ready */
  cv_secure_state state;
  const cv_secure_key *key; /* that the peer named */
  bool nomem;
  cv_status status;
  char text[TEXT_MAX];
};

/* ---- secrets ---- */

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

cv_status cv_secret_parse(const char *identity, const char *hex, cv_secure_key *out_key) {
  memset(out_key, 0, sizeof *out_key);
  size_t name = strlen(identity), digits = strlen(hex);
  if (name < 1 || name > CV_IDENTITY_MAX)
    return cv_error(CV_INVALID, "an identity of %zu characters, 1 to %d are possible", name,
                    CV_IDENTITY_MAX);
  if (digits % 2 != 0 || digits < 2 * CV_SECRET_MIN || digits > 2 * CV_SECRET_MAX)
    return cv_error(CV_INVALID, "the secret of '%s' has %zu hex digits, not %d to %d", identity,
                    digits, 2 * CV_SECRET_MIN, 2 * CV_SECRET_MAX);
  for (size_t i = 0; i < digits; i += 2) {
    int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) {
      cv_secret_wipe(out_key);
      return cv_error(CV_INVALID, "the secret of '%s' is not of hex digits", identity);
    }
    out_key->secret[i / 2] = (uint8_t)(high << 4 | low);
  }
  memcpy(out_key->identity, identity, name);
  out_key->secret_bytes = digits / 2;
  return CV_OK;
}

void cv_secret_wipe(cv_secure_key *key) { OPENSSL_cleanse(key, sizeof *key); }

/* A file that only its owner may read. */
static cv_status check_file(const char *path, int fd) {
  struct stat about;
  if (cv_fault() || fstat(fd, &about) < 0) return cv_error(CV_IO, "%s: %s", path, strerror(errno));
  if (!S_ISREG(about.st_mode)) return cv_error(CV_INVALID, "%s: not a file", path);
  if ((about.st_mode & 077) == 0) return CV_OK;
  return cv_error(CV_INVALID, "%s: others have rights on this secret (mode %03o): chmod 600 %s",
                  path, (unsigned)about.st_mode & 0777, path);
}

/* One line of at most `cap` - 1 characters, its end cut off. */
static cv_status read_line(const char *path, char *line, size_t cap) {
  size_t have = 0;
  int fd = cv_fault() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return cv_error(CV_IO, "%s: %s", path, strerror(errno));
  cv_status status = check_file(path, fd);
  for (ssize_t got = 1; status == CV_OK && got > 0 && have < cap; have += (size_t)got) {
    got = cv_fault() ? -1 : read(fd, line + have, cap - have);
    if (got >= 0) continue;
    status = cv_error(CV_IO, "%s: %s", path, strerror(errno));
    break;
  }
  close(fd);
  if (status != CV_OK) return status;
  if (have >= cap) return cv_error(CV_INVALID, "%s: too long for a secret", path);
  if (have > 0 && line[have - 1] == '\n') have--;
  line[have] = 0;
  if (strlen(line) != have) return cv_error(CV_INVALID, "%s: not a line of hex digits", path);
  return CV_OK;
}

cv_status cv_secret_read(const char *path, const char *identity, cv_secure_key *out_key) {
  char line[2 * CV_SECRET_MAX + 3];
  memset(out_key, 0, sizeof *out_key);
  cv_status status = read_line(path, line, sizeof line);
  if (status == CV_OK) {
    status = cv_secret_parse(identity, line, out_key);
    if (status != CV_OK) status = cv_error_context(status, "%s", path);
  }
  OPENSSL_cleanse(line, sizeof line);
  return status;
}

cv_status cv_secret_make(const char *path) {
  uint8_t secret[CV_SECRET_MIN];
  char line[2 * CV_SECRET_MIN + 2];
  cv_status status = CV_OK;
  if (cv_fault() || getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
    return cv_error(CV_IO, "getrandom: %s", strerror(errno));
  for (size_t i = 0; i < sizeof secret; i++) snprintf(line + 2 * i, 3, "%02x", secret[i]);
  line[sizeof line - 2] = '\n';
  int fd = cv_fault() ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    status = cv_error(CV_IO, "%s: %s", path, strerror(errno));
  } else {
    size_t bytes = sizeof line - 1;
    if (cv_fault() || write(fd, line, bytes) != (ssize_t)bytes)
      status = cv_error(CV_IO, "%s: write: %s", path, strerror(errno));
    if (close(fd) < 0 && status == CV_OK)
      status = cv_error(CV_IO, "%s: close: %s", path, strerror(errno));
    if (status != CV_OK) unlink(path);
  }
  OPENSSL_cleanse(secret, sizeof secret);
  OPENSSL_cleanse(line, sizeof line);
  return status;
}

/* ---- buffers ---- */

/* Makes room for `bytes` behind the tail; false: beyond the bound, or (*nomem) out of memory. */
static bool reserve(buffer *b, size_t bytes, bool *nomem) {
  if (b->head == b->tail) b->head = b->tail = 0;
  if (b->cap - b->tail >= bytes) return true;
  if (b->head > 0) {
    memmove(b->data, b->data + b->head, b->tail - b->head);
    b->tail -= b->head;
    b->head = 0;
  }
  size_t cap = b->cap == 0 ? FIRST_CAP : b->cap;
  while (cap - b->tail < bytes && cap < b->max) cap *= 2;
  if (cap > b->max) cap = b->max;
  if (cap - b->tail < bytes) return false;
  if (cap == b->cap) return true;
  uint8_t *data = cv_realloc(b->data, cap, 1);
  if (data == NULL) {
    *nomem = true;
    return false;
  }
  b->data = data;
  b->cap = cap;
  return true;
}

static int wire_read(BIO *bio, char *data, int size) {
  cv_secure_session *session = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  size_t have = session->in.tail - session->in.head;
  if (have == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  if (have > (size_t)size) have = (size_t)size;
  memcpy(data, session->in.data + session->in.head, have);
  session->in.head += have;
  return (int)have;
}

static int wire_write(BIO *bio, const char *data, int size) {
  cv_secure_session *session = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (!reserve(&session->out, (size_t)size, &session->nomem)) {
    if (!session->nomem) BIO_set_retry_write(bio);
    return -1;
  }
  memcpy(session->out.data + session->out.tail, data, (size_t)size);
  session->out.tail += (size_t)size;
  return size;
}

static long wire_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio;
  (void)number;
  (void)pointer;
  return command == BIO_CTRL_FLUSH;
}

/* ---- keys ---- */

/* The session in OpenSSL's sense that stands for a key. */
static SSL_SESSION *as_session(SSL *ssl, const cv_secure_key *key) {
  const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, key_suite);
  SSL_SESSION *made = cv_fault() ? NULL : SSL_SESSION_new();
  if (made != NULL && cipher != NULL &&
      SSL_SESSION_set1_master_key(made, key->secret, key->secret_bytes) == 1 &&
      SSL_SESSION_set_cipher(made, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1)
    return made;
  SSL_SESSION_free(made);
  return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **out_id, size_t *out_id_bytes,
                   SSL_SESSION **out_session) {
  cv_secure_session *session = SSL_get_app_data(ssl);
  *out_session = NULL;
  if (md != NULL && !EVP_MD_is_a(md, "SHA256")) return 1; /* the peer asks for another suite */
  session->key = &session->secure->keys[0];
  *out_session = as_session(ssl, session->key);
  session->nomem |= *out_session == NULL;
  *out_id = (const unsigned char *)session->key->identity;
  *out_id_bytes = strlen(session->key->identity);
  return *out_session != NULL;
}

/* An unknown identity goes on without a key, and fails for want of one. */
static int find_key(SSL *ssl, const unsigned char *identity, size_t bytes,
                    SSL_SESSION **out_session) {
  cv_secure_session *session = SSL_get_app_data(ssl);
  const cv_secure *secure = session->secure;
  *out_session = NULL;
  for (size_t i = 0; i < secure->n_keys; i++) {
    const cv_secure_key *key = &secure->keys[i];
    if (strlen(key->identity) != bytes || memcmp(key->identity, identity, bytes) != 0) continue;
    session->key = key;
    *out_session = as_session(ssl, key);
    session->nomem |= *out_session == NULL;
    return *out_session != NULL;
  }
  return 1;
}

/* ---- contexts ---- */

static bool configure(SSL_CTX *context, bool server) {
  static const unsigned char name[] = "cuvil"; /* wanted beside SSL_VERIFY_PEER */
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(context, SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL); /* no certificate is ever good enough */
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return (!server || SSL_CTX_set_session_id_context(context, name, sizeof name) == 1) &&
         SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, suites) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1;
}

static cv_status start_openssl(cv_secure *secure) {
  /* the system's configuration must not change what is spoken here */
  if (cv_fault() || OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
    return cv_error(CV_INTERNAL, "OpenSSL does not start");
  const SSL_METHOD *method = secure->server ? TLS_server_method() : TLS_client_method();
  secure->context = cv_fault() ? NULL : SSL_CTX_new(method);
  if (secure->context == NULL) return cv_error(CV_NOMEM, "OpenSSL: no context");
  if (cv_fault() || !configure(secure->context, secure->server))
    return cv_error(CV_UNSUPPORTED, "this OpenSSL has no TLS 1.3 with AES-128-GCM and X25519");
  if (secure->server)
    SSL_CTX_set_psk_find_session_callback(secure->context, find_key);
  else
    SSL_CTX_set_psk_use_session_callback(secure->context, use_key);
  int index = BIO_get_new_index();
  if (!cv_fault() && index != -1)
    secure->wire = BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "cuvil wire");
  if (secure->wire == NULL || BIO_meth_set_read(secure->wire, wire_read) != 1 ||
      BIO_meth_set_write(secure->wire, wire_write) != 1 ||
      BIO_meth_set_ctrl(secure->wire, wire_control) != 1)
    return cv_error(CV_NOMEM, "OpenSSL: no wire");
  return CV_OK;
}

static cv_status create(const cv_secure_key *keys, size_t count, bool server,
                        cv_secure **out_secure) {
  *out_secure = NULL;
  for (size_t i = 0; i < count; i++)
    if (keys[i].identity[0] == 0 || keys[i].secret_bytes < CV_SECRET_MIN ||
        keys[i].secret_bytes > CV_SECRET_MAX)
      return cv_error(CV_INVALID, "key %zu has no identity, or no secret of %d to %d bytes", i,
                      CV_SECRET_MIN, CV_SECRET_MAX);
  cv_secure *secure = cv_alloc(1, sizeof *secure);
  if (secure == NULL) return cv_error_nomem(sizeof *secure);
  cv_status status = CV_OK;
  secure->server = server;
  secure->keys = cv_alloc(count, sizeof *secure->keys);
  if (secure->keys == NULL) CV_TRY(cv_error_nomem(count * sizeof *secure->keys));
  memcpy(secure->keys, keys, count * sizeof *keys);
  secure->n_keys = count;
  CV_TRY(start_openssl(secure));
  *out_secure = secure;
out:
  ERR_clear_error();
  if (status != CV_OK) cv_secure_destroy(secure);
  return status;
}

cv_status cv_secure_server_create(const cv_secure_key *keys, size_t count, cv_secure **out_secure) {
  return create(keys, count, true, out_secure);
}

cv_status cv_secure_client_create(const cv_secure_key *key, cv_secure **out_secure) {
  return create(key, 1, false, out_secure);
}

void cv_secure_destroy(cv_secure *secure) {
  if (secure == NULL) return;
  SSL_CTX_free(secure->context);
  BIO_meth_free(secure->wire);
  for (size_t i = 0; i < secure->n_keys; i++) cv_secret_wipe(&secure->keys[i]);
  cv_free(secure->keys);
  cv_free(secure);
}

/* ---- failure ---- */

static cv_status failed(const cv_secure_session *session) {
  return cv_error(session->status, "%s", session->text);
}

static cv_status fail(cv_secure_session *session, cv_status status, const char *text) {
  session->state = CV_SECURE_FAILED;
  session->status = status;
  snprintf(session->text, sizeof session->text, "%s", text);
  return failed(session);
}

/* What OpenSSL's last error says about the two ends' secrets, or NULL. */
static const char *secret_trouble(const cv_secure_session *session, int reason) {
  if (session->state != CV_SECURE_HANDSHAKING) return NULL;
  if (!session->secure->server) {
    bool refused = reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
                   reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
                   reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
                   reason == SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY;
    if (refused) return "the other end does not know this secret";
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
      return "the other end shows a certificate in place of the secret";
    return NULL;
  }
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) return "the other end has another secret";
  if (session->key == NULL &&
      (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER))
    return "the other end names an identity that is unknown here";
  return NULL;
}

/* Fails the session for what an OpenSSL call said; CV_AGAIN if it only waits for the wire. */
static cv_status say_why(cv_secure_session *session, int returned) {
  int kind = SSL_get_error(session->ssl, returned);
  unsigned long error = ERR_peek_last_error();
  int reason = ERR_GET_REASON(error);
  char text[TEXT_MAX];
  if (session->nomem || reason == ERR_R_MALLOC_FAILURE)
    return fail(session, CV_NOMEM, "TLS: out of memory");
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return CV_AGAIN;
  if (kind == SSL_ERROR_ZERO_RETURN) {
    session->state = CV_SECURE_ENDED;
    return cv_error(CV_CANCELED, "TLS: the other end closed the connection");
  }
  const char *trouble = secret_trouble(session, reason);
  if (trouble != NULL) {
    snprintf(text, sizeof text, "TLS: %s%s%s%s: give both ends one secret", trouble,
             session->key == NULL ? "" : " for '",
             session->key == NULL ? "" : session->key->identity, session->key == NULL ? "" : "'");
    return fail(session, CV_INVALID, text);
  }
  const char *what = error == 0 ? NULL : ERR_reason_error_string(error);
  snprintf(text, sizeof text, "TLS: %s", what == NULL ? "damaged bytes came" : what);
  return fail(session, CV_CORRUPT, text);
}

/* ---- sessions ---- */

/* Moves the handshake as far as what has been fed allows. */
static cv_status shake(cv_secure_session *session) {
  if (session->state == CV_SECURE_FAILED) return failed(session);
  if (session->state != CV_SECURE_HANDSHAKING) return CV_OK;
  ERR_clear_error();
  if (cv_fault()) session->nomem = true;
  int done = session->nomem ? -1 : SSL_do_handshake(session->ssl);
  if (done != 1) {
    cv_status status = say_why(session, done);
    return status == CV_AGAIN ? CV_OK : status;
  }
  if (session->key == NULL || SSL_session_reused(session->ssl) != 1)
    return fail(session, CV_INVALID, "TLS: the other end proved no secret");
  session->state = CV_SECURE_READY;
  return CV_OK;
}

cv_status cv_secure_session_create(cv_secure *secure, cv_secure_session **out_session) {
  *out_session = NULL;
  cv_status status = CV_OK;
  cv_secure_session *session = cv_alloc(1, sizeof *session);
  if (session == NULL) return cv_error_nomem(sizeof *session);
  session->secure = secure;
  session->in.max = CV_SECURE_HELD;
  session->out.max = OUT_MAX;
  session->ssl = cv_fault() ? NULL : SSL_new(secure->context);
  if (session->ssl == NULL) CV_TRY(cv_error(CV_NOMEM, "TLS: no session"));
  SSL_set_app_data(session->ssl, session);
  BIO *wire = cv_fault() ? NULL : BIO_new(secure->wire);
  if (wire == NULL) CV_TRY(cv_error(CV_NOMEM, "TLS: no wire"));
  BIO_set_data(wire, session);
  BIO_set_init(wire, 1);
  SSL_set_bio(session->ssl, wire, wire);
  if (secure->server)
    SSL_set_accept_state(session->ssl);
  else
    SSL_set_connect_state(session->ssl);
  if (!secure->server) CV_TRY(shake(session));
  *out_session = session;
out:
  ERR_clear_error();
  if (status != CV_OK) cv_secure_session_destroy(session);
  return status;
}

static void free_buffer(buffer *b) { cv_free(b->data); }

void cv_secure_session_destroy(cv_secure_session *session) {
  if (session == NULL) return;
  SSL_free(session->ssl);
  free_buffer(&session->in);
  free_buffer(&session->out);
  cv_free(session);
  ERR_clear_error();
}

cv_secure_state cv_secure_session_state(const cv_secure_session *session) { return session->state; }

const char *cv_secure_text(const cv_secure_session *session) { return session->text; }

const char *cv_secure_identity(const cv_secure_session *session) {
  bool known = session->state == CV_SECURE_READY || session->state == CV_SECURE_ENDED;
  return known ? session->key->identity : NULL;
}

/* ---- the wire's side ---- */

void *cv_secure_room(cv_secure_session *session, size_t *out_size) {
  buffer *in = &session->in;
  *out_size = 0;
  /* a full read's worth once there is use for it; else whatever is left */
  bool idle = in->head == in->tail;
  size_t want = idle && session->state == CV_SECURE_READY ? in->max : FIRST_CAP / 2;
  if (!reserve(in, want, &session->nomem) && (session->nomem || !reserve(in, 1, &session->nomem)))
    return NULL;
  *out_size = in->cap - in->tail;
  return in->data + in->tail;
}

cv_status cv_secure_fed(cv_secure_session *session, size_t size) {
  session->in.tail += size;
  if (session->nomem && session->state != CV_SECURE_FAILED)
    return fail(session, CV_NOMEM, "TLS: out of memory");
  if (session->state == CV_SECURE_HANDSHAKING) {
    session->heard += size;
    if (session->heard > CV_SECURE_HELLO)
      return fail(session, CV_CORRUPT, "TLS: the other end says much and proves nothing");
  }
  return shake(session);
}

cv_status cv_secure_feed(cv_secure_session *session, const void *bytes, size_t size,
                         size_t *out_taken) {
  *out_taken = 0;
  cv_status status = shake(session);
  while (status == CV_OK && *out_taken < size) {
    size_t room, left = size - *out_taken;
    void *at = cv_secure_room(session, &room);
    if (room == 0 && !session->nomem) break;
    if (room > left) room = left;
    if (room > 0) memcpy(at, (const uint8_t *)bytes + *out_taken, room);
    *out_taken += room;
    status = cv_secure_fed(session, room);
  }
  return status;
}

bool cv_secure_holds(const cv_secure_session *session) {
  return session->in.tail > session->in.head || SSL_pending(session->ssl) > 0;
}

const void *cv_secure_waiting(const cv_secure_session *session, size_t *out_size) {
  *out_size = session->out.tail - session->out.head;
  return session->out.data + session->out.head;
}

void cv_secure_taken(cv_secure_session *session, size_t size) { session->out.head += size; }

size_t cv_secure_take(cv_secure_session *session, void *data, size_t cap) {
  size_t have;
  const void *from = cv_secure_waiting(session, &have);
  if (have > cap) have = cap;
  if (have > 0) memcpy(data, from, have);
  cv_secure_taken(session, have);
  return have;
}

/* ---- the plain side ---- */

cv_status cv_secure_read(cv_secure_session *session, void *data, size_t cap, size_t *out_size) {
  *out_size = 0;
  if (session->state == CV_SECURE_FAILED) return failed(session);
  if (session->state == CV_SECURE_ENDED) return cv_error(CV_CANCELED, "TLS: it was closed");
  if (session->state != CV_SECURE_READY) return CV_AGAIN;
  ERR_clear_error();
  if (cv_fault()) session->nomem = true;
  if (!session->nomem && SSL_read_ex(session->ssl, data, cap, out_size) == 1) return CV_OK;
  return say_why(session, 0);
}

cv_status cv_secure_write(cv_secure_session *session, const void *bytes, size_t size,
                          size_t *out_taken) {
  *out_taken = 0;
  if (session->state == CV_SECURE_FAILED) return failed(session);
  if (session->state == CV_SECURE_HANDSHAKING) return CV_AGAIN;
  ERR_clear_error();
  while (*out_taken < size) {
    size_t part = size - *out_taken, wrote = 0;
    if (part > CV_SECURE_RECORD) part = CV_SECURE_RECORD;
    if (cv_fault()) session->nomem = true;
    if (!session->nomem && !reserve(&session->out, part + OVERHEAD + SPARE, &session->nomem) &&
        !session->nomem)
      break; /* full: take first */
    if (session->nomem ||
        SSL_write_ex(session->ssl, (const uint8_t *)bytes + *out_taken, part, &wrote) != 1) {
      cv_status status = say_why(session, 0);
      if (status != CV_AGAIN) return status;
      break;
    }
    *out_taken += wrote;
  }
  return *out_taken > 0 || size == 0 ? CV_OK : CV_AGAIN;
}

void cv_secure_finish(cv_secure_session *session) {
  if (session->state != CV_SECURE_READY && session->state != CV_SECURE_ENDED) return;
  ERR_clear_error();
  SSL_shutdown(session->ssl);
  ERR_clear_error();
}
