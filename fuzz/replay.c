/* Runs files through a target without libFuzzer: replay FILE|FOLDER...
 *
 * So the corpora are tests for every compiler, and an input that failed once is one for ever. */
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
    /* Memory of exactly its size: a read past the end is seen. */
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

static int replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int failed = folder == NULL;
    while (folder && (entry = readdir(folder))) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= replay_file(file);
    }
    if (folder)
        closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        failed |= folder ? replay_folder(argv[i]) : replay_file(argv[i]);
    }
    printf("%u inputs\n", count);
    return failed || count == 0; /* a corpus that is gone is not a corpus that passed */
}
