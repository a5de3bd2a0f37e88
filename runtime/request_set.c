#include "runtime/request_set.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/half.h"

static const cv_value *input_value(const cv_program *program, uint32_t i) {
  return &program->values[program->inputs[i].value];
}

static bool find_input(const cv_program *program, const char *name, uint32_t *out_index) {
  for (uint32_t i = 0; i < program->n_inputs; i++) {
    *out_index = i;
    if (strcmp(input_value(program, i)->name, name) == 0) return true;
  }
  return false;
}

/* One --each NAME=FILE, whose file is read already: its rows are checked against the input. */
static cv_status check_each(cv_requests *requests, const char *text, const char *name,
                            const char *file) {
  const cv_program *program = requests->program;
  uint32_t index;
  if (!find_input(program, name, &index))
    return cv_error(CV_INVALID, "--each %s: the model has no input %s; its first one is %s", text,
                    name, program->n_inputs ? input_value(program, 0)->name : "none");
  const cv_tensor *tensor = &requests->files[index];
  int wanted = input_value(program, index)->rank;
  if (tensor->rank != wanted && tensor->rank != wanted + 1)
    return cv_error(CV_INVALID, "--each %s: %s has %d dims, rows of input %s need %d or %d", text,
                    file, tensor->rank, name, wanted, wanted + 1);
  bool drop = tensor->rank == wanted + 1;
  if (requests->any_each && (drop != requests->drop_axis || tensor->dims[0] != requests->count))
    return cv_error(CV_INVALID, "--each %s: %lld rows, the one before has %u", text,
                    (long long)tensor->dims[0], requests->count);
  if (tensor->dims[0] < 1 || tensor->dims[0] > 1 << 24)
    return cv_error(CV_INVALID, "--each %s: %lld rows; at least one is needed", text,
                    (long long)tensor->dims[0]);
  requests->each[index] = true;
  requests->any_each = true;
  requests->drop_axis = drop;
  requests->count = (uint32_t)tensor->dims[0];
  return CV_OK;
}

static cv_status read_each(cv_requests *requests, const char *text) {
  const char *name, *file;
  cv_arena arena = {.may_die = true};
  if (!cv_split_assignment(&arena, text, &name, &file))
    return cv_error(CV_INVALID, "--each %s: give NAME=FILE", text);
  cv_status status = check_each(requests, text, name, file);
  cv_arena_deinit(&arena);
  return status;
}

static bool is_each(const cv_request_options *options, const char *name) {
  size_t length = strlen(name);
  for (uint32_t i = 0; i < options->each.len; i++)
    if (strncmp(options->each.data[i], name, length) == 0 && options->each.data[i][length] == '=')
      return true;
  return false;
}

/* Files of the other inputs: those given by --each are filled by a name of theirs too, so that none
 * is missing. */
static cv_status read_files(cv_requests *requests, const cv_request_options *options) {
  const cv_program *program = requests->program;
  if (options->input_dir)
    return cv_request_read_dir(program, options->input_dir, requests->files, &requests->format);
  uint32_t most = options->inputs.len + options->each.len;
  const char **files = cv_alloc_or_die(most, sizeof *files);
  char **named = cv_alloc_or_die(most, sizeof *named); /* those of files that are made here */
  uint32_t count = 0, plain = 0;
  /* plain files go to the inputs that are not given by name or by --each, in order */
  for (uint32_t i = 0; i < options->each.len; i++) files[count++] = options->each.data[i];
  for (uint32_t i = 0; i < program->n_inputs && plain < options->inputs.len; i++) {
    if (is_each(options, input_value(program, i)->name)) continue;
    const char *text = options->inputs.data[plain++];
    const char *equals = strchr(text, '=');
    if (!equals && options->each.len)
      named[count] = cv_format("%s=%s", input_value(program, i)->name, text);
    files[count] = named[count] ? named[count] : text;
    count++;
  }
  while (plain < options->inputs.len) files[count++] = options->inputs.data[plain++];
  cv_status status = cv_request_read(program, files, count, requests->files);
  if (options->inputs.len) {
    const char *first = options->inputs.data[0];
    requests->format = strstr(first, ".pb") ? CV_FORMAT_PB : CV_FORMAT_NPY;
  }
  for (uint32_t i = 0; i < most; i++) cv_free(named[i]);
  cv_free(named);
  cv_free(files);
  return status;
}

/* A request's tensor: a row of an --each file, or the file's itself. */
static cv_tensor view_of(const cv_requests *requests, uint32_t input, uint32_t row) {
  cv_tensor view = requests->files[input];
  view.owned = false;
  if (!requests->each[input]) return view;
  int64_t rows = view.dims[0];
  view.bytes /= (uint64_t)rows;
  view.data = (char *)view.data + view.bytes * row;
  if (requests->drop_axis) {
    view.rank--;
    memmove(view.dims, view.dims + 1, sizeof *view.dims * view.rank);
  } else {
    view.dims[0] = 1;
  }
  return view;
}

/* Rows of a file need not lie at 64 bytes: those are copied. */
static cv_status place_row(cv_requests *requests, uint32_t input, uint32_t row, cv_tensor *out) {
  *out = view_of(requests, input, row);
  if (((uintptr_t)out->data & 63) == 0) return CV_OK;
  cv_tensor view = *out;
  return cv_tensor_copy(&view, out);
}

cv_status cv_requests_read(const cv_program *program, const cv_request_options *options,
                           cv_requests *out_requests) {
  uint32_t n = program->n_inputs;
  *out_requests = (cv_requests){.program = program,
                                .count = 1,
                                .repeat = options->repeat ? options->repeat : 1,
                                .files = cv_alloc_or_die(n, sizeof(cv_tensor)),
                                .each = cv_alloc_or_die(n, sizeof(bool)),
                                .format = CV_FORMAT_NPY};
  if (options->format && !cv_tensor_format_find(options->format, &out_requests->format))
    return cv_error(CV_INVALID, "--format %s: give npy, pb or json", options->format);
  cv_status status = read_files(out_requests, options);
  for (uint32_t i = 0; i < options->each.len && status == CV_OK; i++)
    status = read_each(out_requests, options->each.data[i]);
  if (status != CV_OK) return status;
  if (options->format && !cv_tensor_format_find(options->format, &out_requests->format))
    return CV_INVALID;
  out_requests->tensors = cv_alloc_or_die((size_t)out_requests->count * n + 1, sizeof(cv_tensor));
  for (uint32_t r = 0; r < out_requests->count; r++)
    for (uint32_t i = 0; i < n && status == CV_OK; i++)
      status = place_row(out_requests, i, r, &out_requests->tensors[(size_t)r * n + i]);
  return status;
}

/* ---- one input, before there is a program ---- */

static const char *file_of(const cv_request_options *options, uint32_t index, const char *name) {
  size_t length = strlen(name);
  bool by_name = options->each.len > 0;
  for (uint32_t i = 0; i < options->inputs.len; i++) {
    const char *text = options->inputs.data[i];
    if (strncmp(text, name, length) == 0 && text[length] == '=') return text + length + 1;
    by_name = by_name || strchr(text, '=');
  }
  if (options->inputs.len == 1 && cv_ends_with(options->inputs.data[0], ".npz"))
    return options->inputs.data[0];
  return !by_name && index < options->inputs.len ? options->inputs.data[index] : NULL;
}

/* Keeps the one tensor that is meant: an archive's are known by their names. */
static void keep_one(cv_tensor_list *list, bool archive, const char *name) {
  size_t kept = 0;
  for (size_t i = 0; i < list->len; i++) {
    cv_named_tensor item = list->data[i];
    if (kept == 0 && (!archive || (item.name && strcmp(item.name, name) == 0))) {
      list->data[kept++] = item;
    } else {
      cv_free(item.name);
      cv_tensor_deinit(&item.tensor);
    }
  }
  list->len = kept;
}

cv_status cv_request_find_input(const cv_request_options *options, uint32_t index, const char *name,
                                cv_tensor_list *list) {
  cv_tensor_format format;
  if (is_each(options, name)) return CV_OK;
  if (options->input_dir)
    return cv_request_read_dir_input(options->input_dir, index, list, &format);
  const char *file = file_of(options, index, name);
  cv_status status = file ? cv_tensor_file_read(file, list) : CV_OK;
  if (file && status == CV_OK) keep_one(list, cv_ends_with(file, ".npz"), name);
  return status;
}

void cv_requests_deinit(cv_requests *requests) {
  uint32_t n = requests->program ? requests->program->n_inputs : 0;
  for (size_t i = 0; requests->tensors && i < (size_t)requests->count * n; i++)
    cv_tensor_deinit(&requests->tensors[i]);
  for (uint32_t i = 0; requests->files && i < n; i++) cv_tensor_deinit(&requests->files[i]);
  cv_free(requests->tensors);
  cv_free(requests->files);
  cv_free(requests->each);
  *requests = (cv_requests){0};
}

/* ---- answers ---- */

void cv_answers_init(cv_answers *answers, const cv_requests *requests) {
  *answers =
      (cv_answers){.requests = requests,
                   .stacked = cv_alloc_or_die(requests->program->n_outputs, sizeof(cv_tensor))};
}

/* Room for `count` outputs like this one: along a new axis 0, or along the one there is. */
static cv_status make_stack(const cv_requests *requests, const cv_tensor *first, cv_tensor *out) {
  int64_t dims[CV_MAX_RANK];
  bool fresh = requests->drop_axis || first->rank == 0;
  if (first->rank + fresh > CV_MAX_RANK)
    return cv_error(CV_INVALID, "outputs of %d dims cannot be stacked: at most %d", first->rank,
                    CV_MAX_RANK - 1);
  dims[0] = fresh ? requests->count : first->dims[0] * requests->count;
  for (int d = fresh ? 0 : 1; d < first->rank; d++) dims[d + fresh] = first->dims[d];
  return cv_tensor_create(first->dtype, first->rank + fresh, dims, out);
}

static cv_status take_one(cv_answers *answers, uint32_t index, uint32_t o,
                          const cv_tensor *output) {
  const cv_requests *requests = answers->requests;
  cv_tensor *stack = &answers->stacked[o];
  if (!requests->any_each) {
    cv_tensor_deinit(stack);
    return cv_tensor_copy(output, stack);
  }
  if (output->absent)
    return cv_error(CV_INVALID, "output %u is absent for request %u: it cannot be stacked", o,
                    index);
  if (!stack->data) {
    cv_status status = make_stack(requests, output, stack);
    if (status != CV_OK) return status;
  }
  if (output->bytes * requests->count != stack->bytes)
    return cv_error(CV_INVALID,
                    "output %u of request %u is %s: outputs of one shape can be stacked", o, index,
                    cv_tensor_shape_text(output).text);
  if (output->bytes)
    memcpy((char *)stack->data + output->bytes * index, output->data, output->bytes);
  return CV_OK;
}

cv_status cv_answers_take(cv_answers *answers, uint32_t index, const cv_tensor *outputs) {
  for (uint32_t o = 0; o < answers->requests->program->n_outputs; o++) {
    cv_status status = take_one(answers, index, o, &outputs[o]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static void print_answer(const char *name, const cv_tensor *t) {
  enum { SHOWN = 8 };
  printf("%s %s", name, t->absent ? "absent" : cv_tensor_shape_text(t).text);
  uint64_t size = cv_dtype_size(t->dtype), count = t->absent ? 0 : t->bytes / size;
  for (uint64_t i = 0; i < count && i < SHOWN; i++)
    printf("%s%.6g", i ? ", " : ": ",
           cv_element_to_double(t->dtype, (const char *)t->data + i * size));
  printf("%s\n", count > SHOWN ? ", ..." : "");
}

cv_status cv_answers_write(const cv_answers *answers, const char *output_dir) {
  const cv_program *program = answers->requests->program;
  if (output_dir)
    return cv_results_write_dir(program, output_dir, answers->requests->format, answers->stacked);
  for (uint32_t o = 0; o < program->n_outputs; o++)
    print_answer(program->values[program->outputs[o].value].name, &answers->stacked[o]);
  return CV_OK;
}

void cv_answers_deinit(cv_answers *answers) {
  for (uint32_t o = 0; answers->requests && o < answers->requests->program->n_outputs; o++)
    cv_tensor_deinit(&answers->stacked[o]);
  cv_free(answers->stacked);
  *answers = (cv_answers){0};
}
