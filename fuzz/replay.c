/* SPDX-License-Identifier: MIT */
/* Runs files through a fuzz target without libFuzzer: replay FILE|DIRECTORY...
 *
 * This makes the corpora tests for every compiler, and keeps an input that failed once as a
 * test. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "target.h"

#define INPUT_MAX (1u << 20)

static unsigned count;

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    uint8_t *data = malloc(INPUT_MAX);
    if (!file || !data) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        free(data);
        if (file)
            fclose(file);
        return 1;
    }
    size_t size = fread(data, 1, INPUT_MAX, file);
    fclose(file);
    /* A buffer of exactly its size: a read past the end is detected. */
    uint8_t *exact = malloc(size ? size : 1);
    ensure(exact);
    memcpy(exact, data, size);
    free(data);
    fprintf(stderr, "%s (%zu bytes)\n", path, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    count++;
    return 0;
}

static int replay_dir(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    int failed = dir == NULL;
    while (dir && (entry = readdir(dir))) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= replay_file(file);
    }
    if (dir)
        closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        failed |= dir ? replay_dir(argv[i]) : replay_file(argv[i]);
    }
    printf("%u inputs\n", count);
    return failed || count == 0; /* a missing corpus is a failure */
}
