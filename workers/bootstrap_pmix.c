#include "workers/bootstrap_pmix.h"

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_S = 60 };

static cv_status failed(pmix_status_t rc, const char *what) {
  return cv_error(rc == PMIX_ERR_TIMEOUT ? CV_TIMEOUT : CV_FAILED, "launcher (PMIx): %s: %s", what,
                  PMIx_Error_string(rc));
}

cv_status cv_bootstrap_begin(cv_bootstrap *out_bootstrap) {
  *out_bootstrap = (cv_bootstrap){.size = 1, .one_host = true};
  if (gethostname(out_bootstrap->host, sizeof out_bootstrap->host - 1) != 0)
    snprintf(out_bootstrap->host, sizeof out_bootstrap->host, "unknown");
  snprintf(out_bootstrap->root_host, sizeof out_bootstrap->root_host, "%s", out_bootstrap->host);
  if (!getenv("PMIX_NAMESPACE")) return CV_OK;
  pmix_proc_t me, job;
  pmix_status_t rc = PMIx_Init(&me, NULL, 0);
  if (rc != PMIX_SUCCESS) return failed(rc, "no contact");
  out_bootstrap->launched = true;
  out_bootstrap->rank = me.rank;
  PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
  pmix_value_t *value = NULL;
  rc = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
  if (rc != PMIX_SUCCESS) return failed(rc, "the number of ranks is not known");
  out_bootstrap->size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return CV_OK;
}

static cv_status put(const char *key, const char *text) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
  pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &value);
  PMIX_VALUE_DESTRUCT(&value);
  return rc == PMIX_SUCCESS ? CV_OK : failed(rc, key);
}

static cv_status get(const pmix_proc_t *from, const char *key, char *out, size_t size) {
  pmix_value_t *value = NULL;
  pmix_status_t rc = PMIx_Get(from, key, NULL, 0, &value);
  if (rc != PMIX_SUCCESS) return failed(rc, key);
  bool good = value->type == PMIX_STRING && value->data.string && strlen(value->data.string) < size;
  if (good) snprintf(out, size, "%s", value->data.string);
  PMIX_VALUE_RELEASE(value);
  return good ? CV_OK : cv_error(CV_FAILED, "launcher (PMIx): %s is no text of this size", key);
}

static cv_status fence(void) {
  pmix_info_t info[2];
  bool collect = true;
  int seconds = TIMEOUT_S;
  PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
  pmix_status_t rc = PMIx_Fence(NULL, 0, info, 2);
  PMIX_INFO_DESTRUCT(&info[0]);
  PMIX_INFO_DESTRUCT(&info[1]);
  return rc == PMIX_SUCCESS ? CV_OK : failed(rc, "waiting for the other ranks");
}

/* What all ranks have put, once they have. */
static cv_status get_all(cv_bootstrap *bootstrap, cv_bootstrap_card *card, pmix_proc_t *proc) {
  cv_status status = CV_OK;
  for (uint32_t i = bootstrap->size; i-- > 0 && status == CV_OK;) { /* rank 0 last */
    proc->rank = i;
    status = get(proc, "cuvil.host", bootstrap->root_host, sizeof bootstrap->root_host);
    if (strcmp(bootstrap->root_host, bootstrap->host) != 0) bootstrap->one_host = false;
  }
  if (status == CV_OK) status = get(proc, "cuvil.control", card->control, sizeof card->control);
  if (status == CV_OK) status = get(proc, "cuvil.token", card->token, sizeof card->token);
  return status;
}

static cv_status put_own(const cv_bootstrap *bootstrap, const cv_bootstrap_card *card) {
  cv_status status = put("cuvil.host", bootstrap->host);
  bool root = bootstrap->rank == 0;
  if (status == CV_OK && root) status = put("cuvil.control", card->control);
  if (status == CV_OK && root) status = put("cuvil.token", card->token);
  if (status != CV_OK) return status;
  pmix_status_t rc = PMIx_Commit();
  return rc == PMIX_SUCCESS ? CV_OK : failed(rc, "commit");
}

cv_status cv_bootstrap_exchange(cv_bootstrap *bootstrap, cv_bootstrap_card *card) {
  if (!bootstrap->launched) return CV_OK;
  pmix_proc_t proc;
  pmix_status_t rc = PMIx_Init(&proc, NULL, 0); /* counted: gives the namespace again */
  if (rc != PMIX_SUCCESS) return failed(rc, "no contact");
  cv_status status = put_own(bootstrap, card);
  if (status == CV_OK) status = fence();
  if (status == CV_OK) status = get_all(bootstrap, card, &proc);
  PMIx_Finalize(NULL, 0); /* the second count */
  return status;
}

void cv_bootstrap_end(const cv_bootstrap *bootstrap) {
  if (bootstrap->launched) PMIx_Finalize(NULL, 0);
}
