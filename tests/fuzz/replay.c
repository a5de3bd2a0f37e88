/* The main program of a fuzzer in an ordinary build: runs each file of its corpus once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The file's bytes in memory of just that size, so that a read beyond them is caught. */
static uint8_t *read_whole(const char *path, size_t *out_size) {
  *out_size = 0;
  struct stat info;
  FILE *file = fopen(path, "rb");
  uint8_t *data = NULL;
  if (file && fstat(fileno(file), &info) == 0) {
    size_t size = (size_t)info.st_size;
    data = malloc(size ? size : 1);
    if (data && fread(data, 1, size, file) == size) {
      *out_size = size;
    } else {
      free(data);
      data = NULL;
    }
  }
  if (file) fclose(file);
  return data;
}

int main(int argc, char **argv) {
  if (argc != 2 || strcmp(argv[1], "--help") == 0) {
    fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
    return 2;
  }
  DIR *folder = opendir(argv[1]);
  if (!folder) {
    perror(argv[1]);
    return 2;
  }
  int ran = 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    size_t size;
    uint8_t *data = read_whole(path, &size);
    if (!data) {
      perror(path);
      return 2;
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    ran++;
  }
  closedir(folder);
  printf("%d inputs\n", ran);
  return ran ? 0 : 2; /* an empty corpus tests nothing */
}
