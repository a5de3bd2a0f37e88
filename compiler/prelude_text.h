/* The pieces of the C prelude: private to prelude*.c. */
#ifndef CV_COMPILER_PRELUDE_TEXT_H
#define CV_COMPILER_PRELUDE_TEXT_H

/* One function, or one a dtype and number of lanes. In `text`:
 *   @D dtype name  @N lanes  @S storage type  @E compute element  @V compute vector  @R storage
 * vector
 *   @I signed integer vector and @Y unsigned vector as wide as @V, @b its bits  @M mask vector
 *   @L the lanes' numbers
 *   @W x @w  a comparison of @V as a mask; @K m @k  a mask as wide as @V */
typedef struct {
  const char
      *name; /* "cv_exp": the function is cv_exp_f32x16; as it stands if there are no dtypes */
  const char *dtypes; /* of those it is there for; "" none */
  const char *text;
} prelude_piece;

extern const prelude_piece prelude_base[], prelude_ops[], prelude_math[]; /* NULL name at the end */

/* An instruction of one vector type that gcc has a builtin for: replaces the piece's body. */
typedef struct {
  const char *name;   /* "cv_sqrt" */
  const char *vector; /* "f32x16" */
  const char *text;   /* expression of the parameters, or a block */
} prelude_native;
extern const prelude_native prelude_natives_x86[], prelude_natives_arm[];

#endif
