/* The requests a user asks for on a command line (--input, --input-dir, --each, --repeat) and what
 * comes back. */
#ifndef CV_RUNTIME_REQUEST_SET_H
#define CV_RUNTIME_REQUEST_SET_H

#include "base/options.h"
#include "runtime/tensor_file.h"

typedef struct {
  cv_texts inputs, each;
  const char *input_dir, *output_dir, *format;
  int64_t repeat;
} cv_request_options;

#define CV_REQUEST_OPTIONS(o)                                                                       \
  {"--input",                                                                                       \
   CV_OPTION_WORDS,                                                                                 \
   &(o).inputs,                                                                                     \
   "FILE...",                                                                                       \
   "files in graph-input order, or NAME=FILE",                                                      \
   0,                                                                                               \
   0},                                                                                              \
      {"--input-dir", CV_OPTION_TEXT, &(o).input_dir, "DIR", "takes DIR/input_K.pb or .npy", 0, 0}, \
      {"--each",                                                                                    \
       CV_OPTION_LIST,                                                                              \
       &(o).each,                                                                                   \
       "NAME=FILE",                                                                                 \
       "each row of axis 0 is a request of its own",                                                \
       0,                                                                                           \
       0},                                                                                          \
      {"--repeat", CV_OPTION_INT, &(o).repeat, "R", "give the requests R times", 1, 1 << 24},       \
      {"--output-dir", CV_OPTION_TEXT, &(o).output_dir, "DIR", "writes DIR/output_K there", 0, 0},  \
  {                                                                                                 \
    "--format", CV_OPTION_TEXT, &(o).format, "npy|pb|json",                                         \
        "form of the outputs (default: as the inputs)", 0, 0                                        \
  }

/* `count` distinct requests in order, given `repeat` times; each has the program's inputs. Tensors
 * of rows are views of the file's. */
typedef struct {
  const cv_program *program;
  uint32_t count;
  int64_t repeat;
  cv_tensor *tensors; /* [count][n_inputs] */
  cv_tensor *files;   /* what the views look into, and the inputs all requests share: [n_inputs] */
  bool *each;         /* by input: rows of a file */
  bool any_each, drop_axis; /* rows lose axis 0 (the file has one more than the input) */
  cv_tensor_format format;
} cv_requests;

/* Reads them. Deinit in any case. */
CV_NODISCARD cv_status cv_requests_read(const cv_program *program,
                                        const cv_request_options *options,
                                        cv_requests *out_requests);
void cv_requests_deinit(cv_requests *requests);

/* The value that the options give input number `index`, whose name is `name`, before there is a
 * program to check it against: of NAME=FILE, of the one .npz, of the index-th file where none is
 * named, or of the folder. Appends it to the list, or nothing where none is given or it changes
 * with the request (--each). CV_IO, CV_INVALID, CV_NOMEM as cv_tensor_file_read. */
CV_NODISCARD cv_status cv_request_find_input(const cv_request_options *options, uint32_t index,
                                             const char *name, cv_tensor_list *list);

/* The answers: the last one, or with --each all of the last repetition, stacked. */
typedef struct {
  const cv_requests *requests;
  cv_tensor *stacked; /* [n_outputs] */
} cv_answers;

void cv_answers_init(cv_answers *answers, const cv_requests *requests);
/* Takes the outputs of request `index` (copied). CV_INVALID if they cannot be stacked. */
CV_NODISCARD cv_status cv_answers_take(cv_answers *answers, uint32_t index,
                                       const cv_tensor *outputs);
/* Writes them to the folder, or prints a line an output where there is none. */
CV_NODISCARD cv_status cv_answers_write(const cv_answers *answers, const char *output_dir);
void cv_answers_deinit(cv_answers *answers);

#endif
