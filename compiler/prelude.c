/* Chooses the pieces of the prelude that a text of kernels needs, and fills them in. */
#include <ctype.h>
#include <string.h>

#include "base/map.h"
#include "compiler/prelude_text.h"
#include "compiler/render_internal.h"

typedef struct {
  const cv_target *target;
  cv_map names; /* every cv_ word that occurs */
  cv_str tail;  /* chosen pieces, the last one of the table first */
} chooser;

static void note_words(chooser *c, const char *text) {
  for (const char *at = strstr(text, "cv_"); at != NULL; at = strstr(at, "cv_")) {
    size_t n = 3;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    if (!cv_map_put(&c->names, at, n, 1)) (void)cv_alloc_or_die(SIZE_MAX, 1);
    at += n;
  }
}

/* ---- filling in ---- */

typedef struct {
  cv_dtype dtype;
  int lanes, mask_bits;
} variant;

static int compute_bits(const variant *v) {
  if (v->dtype == CV_BOOL) return v->mask_bits;
  return 8 * (int)cv_dtype_size(cv_compute_dtype(v->dtype));
}

static void add_compute(const variant *v, cv_str *out) {
  if (v->dtype == CV_BOOL)
    cv_str_add(out, "mask%d", v->lanes);
  else
    cv_str_add(out, "%sx%d", cv_dtype_name(cv_compute_dtype(v->dtype)), v->lanes);
}

static void add_storage(const variant *v, cv_str *out) {
  bool half = v->dtype == CV_F16 || v->dtype == CV_BF16;
  cv_dtype dtype = half ? CV_U16 : v->dtype == CV_BOOL ? CV_U8 : v->dtype;
  cv_str_add(out, "%sx%d", cv_dtype_name(dtype), v->lanes);
}

static void fill(const variant *v, char key, cv_str *out) {
  int bits = compute_bits(v);
  bool same = bits == v->mask_bits;
  const char *f = cv_compute_dtype(v->dtype) == CV_F32 ? "f" : "";
  switch (key) {
    case 'D': cv_str_puts(out, cv_dtype_name(v->dtype)); break;
    case 'N': cv_str_add(out, "%d", v->lanes); break;
    case 'S': cv_str_puts(out, cv_storage_type(v->dtype)); break;
    case 'E': cv_str_puts(out, cv_element_type(v->dtype)); break;
    case 'B': cv_str_add(out, "int%d_t", v->mask_bits); break;
    case 'V': add_compute(v, out); break;
    case 'R': add_storage(v, out); break;
    case 'I': cv_str_add(out, "i%dx%d", bits, v->lanes); break;
    case 'Y': cv_str_add(out, "u%dx%d", bits, v->lanes); break;
    case 'b': cv_str_add(out, "%d", bits); break;
    case 'M': cv_str_add(out, "mask%d", v->lanes); break;
    case 'L':
      for (int l = 0; l < v->lanes; l++) cv_str_add(out, "%s%d", l > 0 ? ", " : "", l);
      break;
    case 'H': /* of two vectors, every second lane */
      for (int l = 0; l < v->lanes; l++) cv_str_add(out, "%s%d", l > 0 ? ", " : "", 2 * l);
      break;
    case 'F':
    case 'f': cv_str_puts(out, f); break;
    case 'W':
    case 'K': cv_str_puts(out, same ? "(" : "__builtin_convertvector("); break;
    case 'w':
      if (!same) cv_str_add(out, ", mask%d", v->lanes);
      cv_str_puts(out, ")");
      break;
    case 'k':
      if (!same) cv_str_add(out, ", i%dx%d", bits, v->lanes);
      cv_str_puts(out, ")");
      break;
    default: break;
  }
}

static void expand(const variant *v, const char *text, cv_str *out) {
  for (; *text != '\0'; text++) {
    if (*text == '@')
      fill(v, *++text, out);
    else
      cv_str_append(out, text, 1);
  }
}

/* ---- choosing ---- */

static const char *native_text(const cv_target *target, const char *name, const char *vector) {
  const prelude_native *row =
      strcmp(target->arch, "aarch64") == 0 ? prelude_natives_arm : prelude_natives_x86;
  for (; row->name != NULL; row++) {
    if (strcmp(row->name, name) == 0 && strcmp(row->vector, vector) == 0) return row->text;
  }
  return NULL;
}

static void prepend(chooser *c, cv_str *piece) {
  note_words(c, cv_str_text(piece));
  cv_str_puts(piece, cv_str_text(&c->tail));
  cv_str_deinit(&c->tail);
  c->tail = *piece;
}

static void choose_variant(chooser *c, const prelude_piece *piece, const variant *v) {
  cv_str full = {.may_die = true}, name = {.may_die = true}, vector = {.may_die = true};
  bool plain = piece->dtypes[0] == '\0';
  cv_str_add(&vector, "%sx%d", cv_dtype_name(v->dtype), v->lanes);
  cv_str_puts(&name, piece->name);
  if (!plain) cv_str_add(&name, "_%s", cv_str_text(&vector));
  if (cv_map_get_str(&c->names, cv_str_text(&name), &(uint64_t){0})) {
    const char *native = plain ? NULL : native_text(c->target, piece->name, cv_str_text(&vector));
    const char *start = native == NULL ? NULL : strstr(piece->text, "CV_INLINE");
    if (start != NULL) {
      cv_str_puts(&full, "#ifndef __clang__\n");
      cv_str head = {.may_die = true};
      cv_str_append(&head, start, (size_t)(strstr(start, "{\n") - start));
      expand(v, cv_str_text(&head), &full);
      cv_str_deinit(&head);
      if (native[0] == '{') {
        cv_str_add(&full, "%s\n#else\n", native);
      } else {
        cv_str_add(&full, "{ return %s; }\n#else\n", native);
      }
    }
    expand(v, piece->text, &full);
    if (start != NULL) cv_str_puts(&full, "#endif\n");
    prepend(c, &full);
  } else {
    cv_str_deinit(&full);
  }
  cv_str_deinit(&name);
  cv_str_deinit(&vector);
}

static bool has_dtype(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strstr(list, name); at != NULL; at = strstr(at + 1, name)) {
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
  }
  return false;
}

static void choose_piece(chooser *c, const prelude_piece *piece) {
  if (piece->dtypes[0] == '\0') {
    choose_variant(c, piece, &(variant){CV_F32, 1, 32});
    return;
  }
  for (int width = 8; width >= 4; width /= 2) {
    for (int d = CV_DTYPE_COUNT - 1; d >= 0; d--) {
      bool fits = (int)cv_dtype_size((cv_dtype)d) <= width;
      if (!fits || !has_dtype(piece->dtypes, cv_dtype_name((cv_dtype)d))) continue;
      choose_variant(c, piece, &(variant){(cv_dtype)d, c->target->vector_bytes / width, 8 * width});
    }
  }
}

/* Pieces use only such as stand before them. */
static void choose(chooser *c, const prelude_piece *table) {
  size_t n = 0;
  while (table[n].name != NULL) n++;
  while (n > 0) choose_piece(c, &table[--n]);
}

/* Vectors as gcc's builtins spell them where int8_t and int64_t are other types. */
static const char x86_types[] =
    "#ifndef __clang__\n"
    "typedef char gcc_i8x16 __attribute__((vector_size(16)));\n"
    "typedef char gcc_i8x32 __attribute__((vector_size(32)));\n"
    "typedef long long gcc_i64x2 __attribute__((vector_size(16)));\n"
    "typedef long long gcc_i64x4 __attribute__((vector_size(32)));\n"
    "typedef long long gcc_i64x8 __attribute__((vector_size(64)));\n"
    "#endif\n";

static void write_types(const cv_target *target, cv_str *out) {
  for (int width = 4; width <= 8; width += 4) {
    int lanes = target->vector_bytes / width;
    for (int d = 0; d < CV_DTYPE_COUNT; d++) {
      cv_dtype dtype = (cv_dtype)d;
      int size = (int)cv_dtype_size(dtype);
      if (dtype == CV_F16 || dtype == CV_BF16 || dtype == CV_BOOL || size > width) continue;
      const char *type = cv_storage_type(dtype), *name = cv_dtype_name(dtype);
      cv_str_add(out, "typedef %s %sx%d __attribute__((vector_size(%d)));\n", type, name, lanes,
                 size * lanes);
      cv_str_add(out,
                 "typedef %s %sx%d_u __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
                 type, name, lanes, size * lanes, size);
    }
    cv_str_add(out, "typedef i%dx%d mask%d;\n", 8 * width, lanes, lanes);
  }
}

void cv_prelude(const cv_target *target, const char *code, cv_str *out) {
  chooser c = {.target = target, .tail = {.may_die = true}};
  note_words(&c, code);
  choose(&c, prelude_math);
  choose(&c, prelude_ops);
  choose(&c, prelude_base);
  cv_str_add(out, "/* %s: vectors of %d bytes. */\n", target->name, target->vector_bytes);
  cv_str_puts(out, "#define CV_INLINE static inline __attribute__((always_inline))\n");
  write_types(target, out);
  if (strcmp(target->arch, "x86-64") == 0) cv_str_puts(out, x86_types);
  cv_str_puts(out, cv_str_text(&c.tail));
  cv_str_deinit(&c.tail);
  cv_map_deinit(&c.names);
}
