/* cuvil secret */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/secure.h"
#include "cli/commands.h"

cv_status cv_command_secret(int argc, char **argv) {
  cv_texts words;
  const cv_option rows[] = {{0}};
  const cv_command command = {
      "cuvil secret new FILE",
      "Makes a random secret of 32 bytes in a new file that only its owner may read.", rows, 2, 2};
  cv_status status = cv_options_parse(&command, argc, argv, &words);
  if (status == CV_OK && strcmp(words.data[0], "new") != 0)
    status = cv_error(CV_INVALID, "there is no 'secret %s': give 'secret new FILE'", words.data[0]);
  if (status == CV_OK) status = cv_secret_make(words.data[1]);
  if (status == CV_OK) printf("%s: a new secret\n", words.data[1]);
  cv_options_release(&command, &words);
  return status;
}
