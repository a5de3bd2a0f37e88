/* The subcommands of `cuvil`, one file each. Each prints its result on stdout; a status and its
 * sentence otherwise. argv[0] is the subcommand's name. */
#ifndef CV_CLI_COMMANDS_H
#define CV_CLI_COMMANDS_H

#include "base/status.h"

CV_NODISCARD cv_status cv_command_build(int argc, char **argv);
CV_NODISCARD cv_status cv_command_inspect(int argc, char **argv);
CV_NODISCARD cv_status cv_command_run(int argc, char **argv);
CV_NODISCARD cv_status cv_command_bench(int argc, char **argv);
CV_NODISCARD cv_status cv_command_profile(int argc, char **argv);
CV_NODISCARD cv_status cv_command_plan(int argc, char **argv);
CV_NODISCARD cv_status cv_command_secret(int argc, char **argv);

#endif
