/* cuvil plan */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/compile.h"
#include "coordinator/devices.h"
#include "coordinator/plan_program.h"
#include "runtime/file.h"

typedef struct {
  cv_compile_options compile;
  int64_t stages, micro_batch, threads;
  cv_texts profiles;
  const char *devices, *output;
  bool json, ordered;
} plan_options;

/* `--profile FILE` or `--profile KIND=FILE`, each for one kind of device. */
static cv_status read_profiles(cv_arena *arena, const plan_options *o, const cv_program *program,
                               const cv_devices *devices, cv_profile *profiles,
                               const cv_profile **by_kind) {
  for (uint32_t i = 0; i < o->profiles.len; i++) {
    const char *kind = NULL, *file = o->profiles.data[i];
    if (strchr(file, '=') && !cv_split_assignment(arena, file, &kind, &file))
      return cv_error(CV_INVALID, "--profile %s: give FILE or KIND=FILE", o->profiles.data[i]);
    cv_status status = cv_profile_read(file, program, &profiles[i]);
    if (status != CV_OK) return status;
    if (!kind) kind = profiles[i].kind;
    bool found = false;
    for (int k = 0; k < devices->n_kinds; k++) {
      if (strcmp(devices->kinds[k], kind) != 0) continue;
      by_kind[k] = &profiles[i];
      found = true;
    }
    if (!found)
      return cv_error(CV_INVALID, "--profile %s: none of the devices is of kind %s",
                      o->profiles.data[i], kind);
  }
  return CV_OK;
}

/* Symbols that --dim fixed are gone already; the others get typical values. */
static cv_status make_plan(const plan_options *o, const cv_program *program,
                           const cv_devices *devices, cv_plan *plan) {
  cv_arena arena = {.may_die = true};
  cv_profile *profiles = cv_arena_array(&arena, cv_profile, o->profiles.len);
  const cv_profile **by_kind = cv_arena_array(&arena, const cv_profile *, (size_t)devices->n_kinds);
  cv_status status = read_profiles(&arena, o, program, devices, profiles, by_kind);
  if (status == CV_OK) {
    cv_plan_request request = {.devices = devices->devices,
                               .n_devices = devices->n_devices,
                               .links = devices->links,
                               .kinds = devices->kinds,
                               .n_kinds = devices->n_kinds,
                               .profiles = by_kind,
                               .stages = (int)o->stages,
                               .ordered = o->ordered,
                               .micro_batch = (int)o->micro_batch,
                               .threads = (int)o->threads};
    status = cv_plan_program(program, &request, plan);
  }
  for (uint32_t i = 0; i < o->profiles.len; i++) cv_profile_deinit(&profiles[i]);
  cv_arena_deinit(&arena);
  return status;
}

static void print_table(const cv_plan *plan) {
  printf("%5s  %-12s %-11s %12s %12s %12s %12s %10s\n", "stage", "device", "steps", "predicted us",
         "compute", "wire in", "wire out", "memory MB");
  for (int i = 0; i < plan->n_stages; i++) {
    const cv_plan_stage *s = &plan->stages[i];
    char steps[32];
    snprintf(steps, sizeof steps, "%d-%d", s->first, s->last);
    printf("%5d  %-12s %-11s %12.1f %12.1f %12.1f %12.1f %10.2f\n", i, s->device, steps, s->us,
           s->compute_us, s->wire_in_us, s->wire_out_us, (double)s->memory_bytes / 1e6);
  }
  printf(
      "rate %.1f items/s, latency %.1f us, bottleneck %.1f us; no plan of this kind is below %.1f "
      "us%s\n%s\n",
      plan->rate, plan->latency_us, plan->bottleneck_us, plan->bound_us,
      plan->exact ? " (this is optimal)" : "", plan->reason);
}

static cv_status write_plan(const plan_options *o, const cv_plan *plan) {
  cv_plan_json json;
  cv_str text = {0};
  cv_status status = cv_plan_to_json(plan, &json);
  if (status != CV_OK) return status;
  status = cv_plan_json_print(&json, &text);
  if (status == CV_OK && o->output) status = cv_file_write(o->output, text.data, text.len);
  if (status == CV_OK && o->json)
    printf("%s", text.data);
  else if (status == CV_OK)
    print_table(plan);
  cv_str_deinit(&text);
  cv_plan_json_deinit(&json);
  return status;
}

cv_status cv_command_plan(int argc, char **argv) {
  plan_options o = {.micro_batch = 1, .threads = 1};
  cv_texts words;
  const cv_option rows[] = {
      {"--stages", CV_OPTION_INT, &o.stages, "N",
       "exactly so many stages, on equal CPUs unless --devices", 1, 4096},
      {"--devices", CV_OPTION_TEXT, &o.devices, "FILE.yaml",
       "devices and links (see configs/devices.yaml)", 0, 0},
      {"--ordered", CV_OPTION_FLAG, &o.ordered, NULL, "devices keep the order of the file", 0, 0},
      {"--profile", CV_OPTION_LIST, &o.profiles, "[KIND=]FILE",
       "measured times (default: a roofline)", 0, 0},
      {"--micro-batch", CV_OPTION_INT, &o.micro_batch, "M", "items a micro-batch (default 1)", 1,
       1 << 20},
      {"--threads", CV_OPTION_INT, &o.threads, "T", "compute threads of a stage (default 1)", 1,
       1024},
      {"-o", CV_OPTION_TEXT, &o.output, "FILE", "the plan to write (JSON)", 0, 0},
      {"--json", CV_OPTION_FLAG, &o.json, NULL, "print the plan as JSON", 0, 0},
      CV_COMPILE_OPTIONS(o.compile),
      {0}};
  const cv_command command = {
      "cuvil plan FILE.cuv --stages N | --devices FILE.yaml [-o PLAN.json] [OPTION...]",
      "Finds the split with the smallest bottleneck; says what it predicts, the bound, and why.",
      rows, 1, 1};
  cv_artifact *artifact = NULL;
  cv_devices devices = {0};
  cv_plan plan = {0};
  cv_status status;
  CV_TRY(cv_options_parse(&command, argc, argv, &words));
  if (!o.stages && !o.devices)
    CV_TRY(cv_error(CV_INVALID, "give --stages N or --devices FILE.yaml"));
  CV_TRY(cv_compile_open(words.data[0], &o.compile, NULL, &artifact));
  if (o.devices)
    CV_TRY(cv_devices_load(o.devices, &devices));
  else
    CV_TRY(cv_devices_equal((int)o.stages, "cpu", (int)o.threads, &devices));
  CV_TRY(make_plan(&o, cv_artifact_program(artifact), &devices, &plan));
  status = write_plan(&o, &plan);
out:
  cv_plan_deinit(&plan);
  cv_devices_deinit(&devices);
  cv_artifact_close(artifact);
  cv_options_release(&command, &words);
  return status;
}
