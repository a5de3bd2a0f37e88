#include "workers/supervisor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "workers/bootstrap_pmix.h"

#define GRACE_NS ((int64_t)1500000000) /* for children to end by themselves, then for SIGTERM */
enum { KEPT_FD = 3 };                  /* the descriptor that a child may inherit */

typedef struct {
  const char *what; /* "worker" */
  pid_t pid;        /* 0: not started, or ended */
} child;

typedef struct {
  cv_bootstrap rank;
  cv_bootstrap_card card;
  cv_worker_options options;
  int listen_fd, signals, parent;
  char folder[4096]; /* of the programs */
  char self[4096];
  child children[CV_CHILDREN];
  int exit_code;
  int64_t next_ns; /* when the children are asked, then forced, to end; INT64_MAX: they run */
  int asked;       /* how often */
} supervisor;

static void say(const supervisor *s, const char *text) {
  fprintf(stderr, "cuvil-worker rank %u on %s: %s\n", s->rank.rank, s->rank.host, text);
}

/* ---- what is there before the children ---- */

/* Rank 0: the socket on which its coordinator will listen, and the job's secret. */
static cv_status make_card(supervisor *s) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t size = sizeof at;
  uint8_t secret[32];
  const char *bind_to = s->options.bind ? s->options.bind : "127.0.0.1";
  if (inet_pton(AF_INET, bind_to, &at.sin_addr) != 1)
    return cv_error(CV_INVALID, "--bind %s: give an IPv4 address of this host", bind_to);
  s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s->listen_fd < 0 || bind(s->listen_fd, (const struct sockaddr *)&at, size) != 0 ||
      listen(s->listen_fd, SOMAXCONN) != 0 ||
      getsockname(s->listen_fd, (struct sockaddr *)&at, &size) != 0)
    return cv_error(CV_INVALID, "cannot listen on %s: %s; give --bind an address of this host",
                    bind_to, strerror(errno));
  snprintf(s->card.control, sizeof s->card.control, "%s:%u", bind_to, ntohs(at.sin_port));
  if (getrandom(secret, sizeof secret, 0) != sizeof secret)
    return cv_error(CV_IO, "no random numbers: %s", strerror(errno));
  for (size_t i = 0; i < sizeof secret; i++) snprintf(s->card.token + 2 * i, 3, "%02x", secret[i]);
  return CV_OK;
}

static cv_status find_programs(supervisor *s) {
  ssize_t n = readlink("/proc/self/exe", s->self, sizeof s->self - 1);
  if (n < 0) return cv_error(CV_IO, "/proc/self/exe: %s", strerror(errno));
  s->self[n] = 0;
  snprintf(s->folder, sizeof s->folder, "%s", s->self);
  char *slash = strrchr(s->folder, '/');
  if (slash) *slash = 0;
  return CV_OK;
}

static cv_status prepare(supervisor *s) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
    return cv_error(CV_INTERNAL, "signals: %s", strerror(errno));
  s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  /* where the kernel has no pidfd (-1), poll leaves it alone */
  s->parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
  if (s->signals < 0) return cv_error(CV_IO, "signals: %s", strerror(errno));
  cv_status status = find_programs(s);
  if (status == CV_OK) status = cv_bootstrap_begin(&s->rank);
  if (status == CV_OK && s->rank.rank == 0) status = make_card(s);
  if (status == CV_OK) status = cv_bootstrap_exchange(&s->rank, &s->card);
  if (status != CV_OK) return status;
  if (strncmp(s->card.control, "127.", 4) == 0 && strcmp(s->rank.host, s->rank.root_host) != 0)
    return cv_error(
        CV_INVALID,
        "rank 0 runs on %s and listens there on the loopback only: give --bind ADDRESS, "
        "an address of %s that this host reaches",
        s->rank.root_host, s->rank.root_host);
  s->options.control = s->card.control;
  s->options.rank = s->rank.rank;
  s->options.workers = s->rank.size;
  if (!s->options.transport && s->rank.one_host) s->options.transport = "shm";
  if (setenv("CUVIL_TOKEN", s->card.token, 1) != 0) return cv_error_nomem(1);
  return CV_OK;
}

/* ---- children ---- */

/* In the new process: ends with the supervisor, inherits nothing but `keep_fd`, becomes `words`. */
__attribute__((noreturn)) static void become(const cv_words *words, pid_t supervisor_pid,
                                             int keep_fd) {
  sigset_t none;
  sigemptyset(&none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor_pid) _exit(1); /* it has died already */
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (keep_fd >= 0 && keep_fd != KEPT_FD) dup2(keep_fd, KEPT_FD);
  if (keep_fd == KEPT_FD) fcntl(KEPT_FD, F_SETFD, 0);
  close_range(KEPT_FD + (keep_fd >= 0), ~0U, 0);
  execv(words->data[0], words->data);
  dprintf(STDERR_FILENO, "cuvil-worker: %s cannot be started: %s\n", words->data[0],
          strerror(errno));
  _exit(2);
}

static cv_status start(supervisor *s, cv_child_kind kind) {
  static const char *const names[CV_CHILDREN] = {"coordinator", "gateway", "worker"};
  cv_words words = {0};
  cv_status status = CV_OK;
  char *program = kind == CV_CHILD_WORKER ? cv_strdup(s->self)
                                          : cv_format("%s/cuvil-%s", s->folder, names[kind]);
  if (!program) CV_TRY(cv_error_nomem(1));
  CV_TRY(cv_worker_options_forward(&s->options, kind, program, &words));
  if (kind == CV_CHILD_COORDINATOR) {
    words.len--; /* the NULL at the end */
    if (!cv_words_push(&words, "--listen-fd") || !cv_words_push(&words, "3") ||
        !cv_words_push(&words, NULL))
      CV_TRY(cv_error_nomem(1));
  }
  pid_t self = getpid(), pid = fork();
  if (pid == 0) become(&words, self, kind == CV_CHILD_COORDINATOR ? s->listen_fd : -1);
  if (pid < 0) CV_TRY(cv_error(CV_IO, "no new process: %s", strerror(errno)));
  s->children[kind] = (child){.what = names[kind], .pid = pid};
out:
  cv_words_deinit(&words);
  cv_free(program);
  return status;
}

static bool any_left(const supervisor *s) {
  for (int i = 0; i < CV_CHILDREN; i++)
    if (s->children[i].pid) return true;
  return false;
}

static void signal_all(const supervisor *s, int number) {
  for (int i = 0; i < CV_CHILDREN; i++)
    if (s->children[i].pid) kill(s->children[i].pid, number);
}

/* The coordinator alone is asked first, where there is one: it stops the others in order. */
static void ask(const supervisor *s) {
  pid_t coordinator = s->children[CV_CHILD_COORDINATOR].pid;
  if (coordinator && !s->asked)
    kill(coordinator, SIGTERM);
  else
    signal_all(s, SIGTERM);
}

/* The rank ends with this code; the children get time to end by themselves, or are asked now. */
static void finish(supervisor *s, int code, bool now) {
  if (s->exit_code) return;
  s->exit_code = code;
  s->next_ns = cv_clock_ns() + (now ? 0 : GRACE_NS);
}

static void note_end(supervisor *s, child *one, int how) {
  pid_t pid = one->pid;
  char text[128];
  one->pid = 0;
  if (WIFEXITED(how)) {
    if (WEXITSTATUS(how) != 0) finish(s, WEXITSTATUS(how), false);
    return;
  }
  if (s->asked) return; /* by us */
  snprintf(text, sizeof text, "the %s (process %d) was ended by signal %d (%s)", one->what,
           (int)pid, WTERMSIG(how), strsignal(WTERMSIG(how)));
  if (!s->exit_code) say(s, text);
  finish(s, cv_status_exit_code(CV_PEER_LOST), false);
}

static void reap(supervisor *s) {
  for (int i = 0; i < CV_CHILDREN; i++) {
    int how;
    if (s->children[i].pid && waitpid(s->children[i].pid, &how, WNOHANG) == s->children[i].pid)
      note_end(s, &s->children[i], how);
  }
}

static void take_signals(supervisor *s) {
  struct signalfd_siginfo info;
  while (read(s->signals, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) finish(s, 128 + (int)info.ssi_signo, true);
}

/* Asks the children to end, then makes them. */
static void push(supervisor *s) {
  if (cv_clock_ns() < s->next_ns) return;
  if (s->asked < 2)
    ask(s);
  else
    signal_all(s, SIGKILL);
  s->asked++;
  s->next_ns = cv_clock_ns() + GRACE_NS;
}

static void watch(supervisor *s) {
  while (any_left(s)) {
    struct pollfd fds[2] = {{.fd = s->signals, .events = POLLIN},
                            {.fd = s->parent, .events = POLLIN}};
    int wait = s->next_ns == INT64_MAX ? -1 : (int)((s->next_ns - cv_clock_ns()) / 1000000 + 1);
    if (wait < 0 && s->next_ns != INT64_MAX) wait = 0;
    if (poll(fds, 2, wait) > 0 && fds[1].revents) {
      s->parent = -1;
      finish(s, 128 + SIGHUP, true);
    }
    take_signals(s);
    reap(s);
    push(s);
  }
}

int cv_supervisor_run(const cv_worker_options *options) {
  supervisor s = {
      .options = *options, .listen_fd = -1, .parent = -1, .signals = -1, .next_ns = INT64_MAX};
  cv_status status = prepare(&s);
  if (status == CV_OK && s.rank.rank == 0) status = start(&s, CV_CHILD_COORDINATOR);
  if (status == CV_OK && s.rank.rank == 0) status = start(&s, CV_CHILD_GATEWAY);
  if (status == CV_OK) status = start(&s, CV_CHILD_WORKER);
  if (s.listen_fd >= 0) close(s.listen_fd);
  if (status != CV_OK) {
    say(&s, cv_error_text());
    finish(&s, cv_status_exit_code(status), true);
  }
  watch(&s);
  if (s.exit_code == 0) cv_bootstrap_end(&s.rank);
  return s.exit_code;
}
