/* One case or more for every core op, as graph text with its inputs as constants, and what the
 * interpreter must give. The tests of the text form, the verifier and the interpreter walk this
 * table; a new op without a case fails them. */
#ifndef CV_TESTS_OP_CASES_H
#define CV_TESTS_OP_CASES_H

typedef struct {
  const char *body;     /* lines of the graph's block */
  const char *results;  /* names of its results */
  const char *expected; /* "f32[2]: 1 2; ..." */
} op_case;

#define F2(a, b) "%a: f32[2] = const {" a "}\n%b: f32[2] = const {" b "}\n"
#define UNARY(op, in, out) \
  { "%x: f32[3] = const {" in "}\n%y: f32[3] = " op "(%x)\n", "%y", "f32[3]: " out }
#define UNARY_INT(op, in, out) \
  { "%x: i8[3] = const {" in "}\n%y: i8[3] = " op "(%x)\n", "%y", "i8[3]: " out }
#define BINARY(op, a, b, out)                                                                      \
  {                                                                                                \
    "%a: f32[3] = const {" a "}\n%b: f32[3] = const {" b "}\n%y: f32[3] = " op "(%a, %b)\n", "%y", \
        "f32[3]: " out                                                                             \
  }
#define BINARY_INT(t, op, a, b, out)                                                               \
  {                                                                                                \
    "%a: " t "[3] = const {" a "}\n%b: " t "[3] = const {" b "}\n%y: " t "[3] = " op "(%a, %b)\n", \
        "%y", t "[3]: " out                                                                        \
  }
#define COMPARE(t, op, a, b, out)                                                                 \
  {                                                                                               \
    "%a: " t "[3] = const {" a "}\n%b: " t "[3] = const {" b "}\n%y: bool[3] = " op "(%a, %b)\n", \
        "%y", "bool[3]: " out                                                                     \
  }
#define CAST(from, in, to, out)                                                       \
  {                                                                                   \
    "%x: " from "[3] = const {" in "}\n%y: " to "[3] = cast(%x) {to=" to "}\n", "%y", \
        to "[3]: " out                                                                \
  }
#define X23 "%x: f32[2,3] = const {1, 2, 3, 4, 5, 6}\n"
#define I23 "%x: i32[2,3] = const {3, -1, 4, 1, -5, 9}\n"

static const op_case op_cases[] = {
    /* MAP, one operand */
    UNARY("neg", "1, -2, 0", "-1 2 -0"),
    UNARY_INT("neg", "1, -128, 0", "-1 -128 0"),
    UNARY("abs", "1, -2, -inf", "1 2 inf"),
    UNARY_INT("abs", "-5, -128, 7", "5 -128 7"),
    UNARY("sign", "-3, 0, nan", "-1 0 nan"),
    UNARY_INT("sign", "-3, 0, 9", "-1 0 1"),
    UNARY("floor", "1.5, -1.5, 2", "1 -2 2"),
    UNARY("ceil", "1.5, -1.5, 2", "2 -1 2"),
    UNARY("round", "0.5, 1.5, -2.5", "0 2 -2"),
    UNARY("sqrt", "4, 2, -1", "2 1.41421 nan"),
    UNARY("exp", "0, 1, -inf", "1 2.71828 0"),
    UNARY("log", "1, 10, 0", "0 2.30259 -inf"),
    UNARY("sin", "0, 1, 2", "0 0.841471 0.909297"),
    UNARY("cos", "0, 1, 2", "1 0.540302 -0.416147"),
    UNARY("atan", "0, 1, -1", "0 0.785398 -0.785398"),
    UNARY("tanh", "0, 1, 20", "0 0.761594 1"),
    UNARY("erf", "0, 1, -1", "0 0.842701 -0.842701"),
    UNARY_INT("not", "0, 1, -1", "-1 -2 0"),
    {"%x: bool[2] = const {0, 1}\n%y: bool[2] = not(%x)\n", "%y", "bool[2]: 1 0"},
    {"%x: u8[2] = const {0, 1}\n%y: u8[2] = not(%x)\n", "%y", "u8[2]: 255 254"},
    CAST("f32", "1.9, -1.9, 300", "i8", "1 -1 127"),
    CAST("f32", "nan, -5, inf", "u8", "0 0 255"),
    CAST("f32", "nan, 1e30, -1e30", "i64", "0 9223372036854775807 -9223372036854775808"),
    CAST("f64", "3e9, -3e9, 1e20", "u64", "3000000000 0 18446744073709551615"),
    CAST("i32", "300, -1, 128", "i8", "44 -1 -128"),
    CAST("i32", "300, -1, 128", "u8", "44 255 128"),
    CAST("u64", "18446744073709551615, 1, 0", "f32", "1.84467e+19 1 0"),
    CAST("f32", "0.5, 0, nan", "bool", "1 0 1"),
    CAST("bool", "1, 0, 1", "f16", "1 0 1"),
    CAST("f32", "65519, 65520, 0x1p-25", "f16", "65504 inf 0"),
    CAST("f32", "0x1.01p+0, 0x1.03p+0, -0x1p-133", "bf16", "1 1.01562 -9.18355e-41"),
    CAST("f16", "0x1.ffcp+15, 0x1p-24, -0x0p+0", "f32", "65504 5.96046e-08 -0"),
    CAST("bf16", "0x1.fep+127, 1, inf", "f16", "inf 1 inf"),
    /* MAP, two operands */
    BINARY("add", "1, 2, inf", "4, -2, -inf", "5 0 nan"),
    BINARY_INT("i32", "add", "2147483647, 1, 2", "1, 1, 1", "-2147483648 2 3"),
    BINARY_INT("f16", "add", "2048, 1, 65504", "1, 1, 65504", "2048 2 inf"),
    BINARY_INT("bf16", "add", "256, 1, 1", "1, 1, 0x1p-9", "256 2 1"),
    BINARY_INT("f64", "add", "1, 2, 3", "1, 1, 1", "2 3 4"),
    BINARY_INT("i16", "add", "32767, 1, 2", "1, 1, 1", "-32768 2 3"),
    BINARY_INT("u16", "add", "65535, 1, 2", "1, 1, 1", "0 2 3"),
    BINARY_INT("u32", "add", "4294967295, 1, 2", "1, 1, 1", "0 2 3"),
    BINARY("sub", "1, 2, 3", "4, 2, 1", "-3 0 2"),
    BINARY_INT("u8", "sub", "1, 2, 3", "2, 2, 1", "255 0 2"),
    BINARY("mul", "1, 2, 3", "4, 2, -1", "4 4 -3"),
    BINARY_INT("i64", "mul", "9223372036854775807, 2, 3", "2, 2, -1", "-2 4 -3"),
    BINARY("div", "1, 1, -1", "4, 0, 0", "0.25 inf -inf"),
    BINARY_INT("i32", "div", "7, -7, 5", "2, 2, 0", "3 -3 0"),
    BINARY_INT("i8", "div", "-128, -128, 1", "-1, 3, -1", "-128 -42 -1"),
    BINARY_INT("i64", "div", "-9223372036854775808, 9, 1", "-1, -2, 1",
               "-9223372036854775808 -4 1"),
    BINARY_INT("u64", "div", "18446744073709551615, 9, 1", "2, 2, 0", "9223372036854775807 4 0"),
    BINARY("rem", "7, -7, 5.5", "3, 3, 2", "1 -1 1.5"),
    BINARY_INT("i32", "rem", "7, -7, 5", "3, 3, 0", "1 -1 0"),
    BINARY_INT("u64", "rem", "18446744073709551615, 9, 1", "10, 2, 1", "5 1 0"),
    BINARY("pow", "2, 4, -1", "3, 0.5, 2", "8 2 1"),
    BINARY_INT("i32", "pow", "2, -1, 3", "31, -3, -1", "-2147483648 -1 0"),
    BINARY_INT("u8", "pow", "2, 3, 0", "8, 2, 0", "0 9 1"),
    BINARY("max", "1, nan, 3", "4, 2, nan", "4 nan nan"),
    BINARY_INT("u64", "max", "18446744073709551615, 1, 3", "4, 2, 3", "18446744073709551615 2 3"),
    BINARY("min", "1, nan, 3", "4, 2, -inf", "1 nan -inf"),
    BINARY_INT("i8", "min", "1, -2, 3", "4, 2, 3", "1 -2 3"),
    BINARY_INT("u8", "and", "12, 255, 1", "10, 15, 2", "8 15 0"),
    BINARY_INT("bool", "and", "1, 1, 0", "1, 0, 0", "1 0 0"),
    BINARY_INT("u8", "or", "12, 240, 1", "10, 15, 2", "14 255 3"),
    BINARY_INT("bool", "or", "1, 1, 0", "1, 0, 0", "1 1 0"),
    BINARY_INT("i8", "xor", "12, -1, 1", "10, 15, 2", "6 -16 3"),
    BINARY_INT("bool", "xor", "1, 1, 0", "1, 0, 0", "0 1 0"),
    BINARY_INT("u8", "shl", "1, 255, 1", "7, 4, 8", "128 240 0"),
    BINARY_INT("i32", "shl", "-1, 1, 1", "4, 32, -1", "-16 0 0"),
    BINARY_INT("u8", "shr", "128, 255, 1", "7, 4, 8", "1 15 0"),
    BINARY_INT("i8", "shr", "-128, -1, 64", "7, 9, 3", "-1 -1 8"),
    BINARY_INT("u64", "shr", "18446744073709551615, 1, 8", "63, 64, 3", "1 0 1"),
    COMPARE("f32", "eq", "1, nan, 0", "1, nan, -0.0", "1 0 1"),
    COMPARE("bool", "eq", "1, 0, 1", "1, 1, 0", "1 0 0"),
    COMPARE("f32", "lt", "1, nan, 0", "2, 1, 0", "1 0 0"),
    COMPARE("u64", "lt", "18446744073709551615, 1, 0", "1, 2, 0", "0 1 0"),
    COMPARE("i8", "le", "-1, 5, 7", "1, 5, 6", "1 1 0"),
    COMPARE("f32", "le", "1, nan, 0", "2, 1, 0", "1 0 1"),
    {"%c: bool[2] = const {1, 0}\n" F2("1, 2", "3, 4") "%y: f32[2] = select(%c, %a, %b)\n", "%y",
     "f32[2]: 1 4"},
    /* MOVE */
    {X23 "%y: f32[3,2] = reshape(%x) {dims=[3,2]}\n", "%y", "f32[3,2]: 1 2 3 4 5 6"},
    {X23 "%y: f32[3,2] = transpose(%x) {perm=[1,0]}\n", "%y", "f32[3,2]: 1 4 2 5 3 6"},
    {"%x: i16[2,1] = const {7, 8}\n%y: i16[2,3] = broadcast(%x) {dims=[2,3]}\n", "%y",
     "i16[2,3]: 7 7 7 8 8 8"},
    {X23 "%y: f32[2,2] = slice(%x) {dims=[2,2], starts=[0,2], steps=[1,-2]}\n", "%y",
     "f32[2,2]: 3 1 6 4"},
    {X23 "%y: f32[1,0] = slice(%x) {dims=[1,0], starts=[1,3], steps=[1,1]}\n", "%y", "f32[1,0]:"},
    {"%x: u8[2] = const {1, 2}\n%v: u8[] = const {9}\n"
     "%y: u8[5] = pad(%x, %v) {lo=[1], hi=[2]}\n",
     "%y", "u8[5]: 9 1 2 9 9"},
    {X23 "%w: f32[2,1] = const {8, 9}\n%y: f32[2,4] = concat(%x, %w) {axis=1}\n", "%y",
     "f32[2,4]: 1 2 3 8 4 5 6 9"},
    /* GATHER */
    {X23 "%i: i64[2] = const {2, -3}\n%y: f32[2,2] = gather(%x, %i) {axis=1}\n", "%y",
     "f32[2,2]: 3 1 6 4"},
    {X23 "%i: i32[] = const {1}\n%y: f32[3] = gather(%x, %i) {axis=0}\n", "%y", "f32[3]: 4 5 6"},
    {X23 "%i: i64[2,2] = const {0, 1, -1, 2}\n%y: f32[2] = gather_nd(%x, %i) {batch_dims=0}\n",
     "%y", "f32[2]: 2 6"},
    {X23 "%i: i64[2,1] = const {1, 2}\n%y: f32[2] = gather_nd(%x, %i) {batch_dims=1}\n", "%y",
     "f32[2]: 2 6"},
    /* SHAPE */
    {"%y: f32[2,3] = iota() {to=f32, dims=[2,3], axis=1}\n", "%y", "f32[2,3]: 0 1 2 0 1 2"},
    {"%y: i64[2] = extents() {exprs=[3,7]}\n", "%y", "i64[2]: 3 7"},
    /* REDUCE */
    {X23 "%y: f32[2] = reduce(%x) {axes=[1], kind=\"sum\"}\n", "%y", "f32[2]: 6 15"},
    {X23 "%y: f32[] = reduce(%x) {axes=[0,1], kind=\"prod\"}\n", "%y", "f32[]: 720"},
    {X23 "%y: f32[3] = reduce(%x) {axes=[0], kind=\"max\"}\n", "%y", "f32[3]: 4 5 6"},
    {I23 "%y: i32[2] = reduce(%x) {axes=[1], kind=\"min\"}\n", "%y", "i32[2]: -1 -5"},
    {"%x: bool[2,2] = const {0, 1, 0, 0}\n%y: bool[2] = reduce(%x) {axes=[1], kind=\"any\"}\n"
     "%z: bool[2] = reduce(%x) {axes=[0], kind=\"all\"}\n",
     "%y, %z", "bool[2]: 1 0; bool[2]: 0 0"},
    {"%x: f32[0,1] = const {}\n%a: f32[1] = reduce(%x) {axes=[0], kind=\"max\"}\n"
     "%b: f32[1] = reduce(%x) {axes=[0], kind=\"prod\"}\n%i: u8[0] = const {}\n"
     "%c: u8[] = reduce(%i) {axes=[0], kind=\"min\"}\n",
     "%a, %b, %c", "f32[1]: -inf; f32[1]: 1; u8[]: 255"},
    {I23 "%y: i64[2] = arg(%x) {axis=1, kind=\"max\", last=0}\n"
         "%z: i64[3] = arg(%x) {axis=0, kind=\"min\", last=1}\n",
     "%y, %z", "i64[2]: 2 2; i64[3]: 1 1 0"},
    {"%x: i8[3] = const {1, 1, 0}\n%y: i64[] = arg(%x) {axis=0, kind=\"max\", last=1}\n", "%y",
     "i64[]: 1"},
    {X23 "%y: f32[2,3] = scan(%x) {axis=1, kind=\"sum\", exclusive=0, reverse=0}\n"
         "%z: f32[2,3] = scan(%x) {axis=1, kind=\"prod\", exclusive=1, reverse=1}\n",
     "%y, %z", "f32[2,3]: 1 3 6 4 9 15; f32[2,3]: 6 3 1 30 6 1"},
    /* CONTRACT */
    {X23 "%w: f32[3,1] = const {1, 0, -1}\n%y: f32[2,1] = matmul(%x, %w) {to=f32}\n", "%y",
     "f32[2,1]: -2 -2"},
    {"%a: u8[2,1,2] = const {255, 255, 1, 2}\n%b: i8[2,2,1] = const {127, 127, -1, 3}\n"
     "%y: i32[2,1,1] = matmul(%a, %b) {to=i32}\n",
     "%y", "i32[2,1,1]: 64770 5"},
    {"%x: f32[1,1,3,3] = const {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
     "%w: f32[1,1,2,2] = const {1, 0, 0, -1}\n"
     "%y: f32[1,1,2,2] = conv(%x, %w) {to=f32, lo=[0,0], hi=[0,0], strides=[1,1], dilations=[1,1],"
     " lhs_dilation=[1,1], groups=1}\n",
     "%y", "f32[1,1,2,2]: -4 -4 -4 -4"},
    {"%x: f32[1,2,3] = const {1, 2, 3, 4, 5, 6}\n%w: f32[2,1,2] = const {1, 1, 2, 2}\n"
     "%y: f32[1,2,2] = conv(%x, %w) {to=f32, lo=[1], hi=[1], strides=[2], dilations=[2],"
     " lhs_dilation=[1], groups=2}\n",
     "%y", "f32[1,2,2]: 2 2 10 10"},
    {"%x: f32[1,1,2] = const {1, 2}\n%w: f32[1,1,2] = const {1, 10}\n"
     "%y: f32[1,1,4] = conv(%x, %w) {to=f32, lo=[1], hi=[1], strides=[1], dilations=[1],"
     " lhs_dilation=[2], groups=1}\n",
     "%y", "f32[1,1,4]: 10 1 20 2"},
    /* WINDOW */
    {"%x: f32[1,1,4] = const {1, 3, 2, nan}\n"
     "%y: f32[1,1,3] = window(%x) {kernel=[2], strides=[1], dilations=[1], lo=[0], hi=[0],"
     " kind=\"max\"}\n"
     "%z: f32[1,1,3] = window(%x) {kernel=[2], strides=[2], dilations=[1], lo=[1], hi=[1],"
     " kind=\"sum\"}\n",
     "%y, %z", "f32[1,1,3]: 3 3 nan; f32[1,1,3]: 1 5 nan"},
    {"%x: i8[1,1,2,2] = const {1, 2, 4, 3}\n"
     "%y: i64[1,1,1,1] = window_arg(%x) {kernel=[2,2], strides=[1,1], dilations=[1,1], lo=[0,0],"
     " hi=[0,0]}\n",
     "%y", "i64[1,1,1,1]: 2"},
    /* ROUTINE */
    {X23 "%i: i64[2,1] = const {1, 1}\n%u: f32[2,3] = const {1, 1, 1, 2, 2, 2}\n"
         "%y: f32[2,3] = scatter_nd(%x, %i, %u) {kind=\"add\"}\n"
         "%z: f32[2,3] = scatter_nd(%x, %i, %u) {kind=\"set\"}\n",
     "%y, %z", "f32[2,3]: 1 2 3 7 8 9; f32[2,3]: 1 2 3 2 2 2"},
    {"%x: i32[3] = const {5, 6, 7}\n%i: i32[3,1] = const {0, -1, 0}\n%u: i32[3] = const {2, 3, 9}\n"
     "%y: i32[3] = scatter_nd(%x, %i, %u) {kind=\"mul\"}\n"
     "%z: i32[3] = scatter_nd(%x, %i, %u) {kind=\"max\"}\n"
     "%w: i32[3] = scatter_nd(%x, %i, %u) {kind=\"min\"}\n",
     "%y, %z, %w", "i32[3]: 90 6 21; i32[3]: 9 6 7; i32[3]: 2 6 3"},
    {I23 "%y: i32[2,2], %z: i64[2,2] = topk(%x) {axis=1, k=2, largest=1}\n", "%y, %z",
     "i32[2,2]: 4 3 9 1; i64[2,2]: 2 0 2 0"},
    {"%x: f32[3] = const {1, 1, 0}\n%y: f32[2], %z: i64[2] = topk(%x) {axis=0, k=2, largest=0}\n",
     "%y, %z", "f32[2]: 0 1; i64[2]: 2 0"},
    {"%x: f32[2,2] = const {0, 1, -0.0, nan}\n%n: i64[] = nonzero_count(%x)\n"
     "%y: i64[2,2] = nonzero(%x) {k=2}\n",
     "%n, %y", "i64[]: 2; i64[2,2]: 0 1 1 1"},
    {"%x: i32[5] = const {3, 1, 3, 2, 1}\n"
     "%f: i64[5], %i: i64[5], %c: i64[5], %n: i64[] = unique(%x) {sorted=1}\n",
     "%f, %i, %c, %n", "i64[5]: 1 3 0 -1 -1; i64[5]: 2 0 2 1 0; i64[5]: 2 1 2 0 0; i64[]: 3"},
    {"%x: i32[5] = const {3, 1, 3, 2, 1}\n"
     "%f: i64[5], %i: i64[5], %c: i64[5], %n: i64[] = unique(%x) {sorted=0}\n",
     "%f, %i, %c, %n", "i64[5]: 0 1 3 -1 -1; i64[5]: 0 1 0 2 1; i64[5]: 2 2 1 0 0; i64[]: 3"},
    {"%b: f32[1,3,4] = const {0, 0, 2, 2, 0, 0.1, 2, 2, 5, 5, 6, 6}\n"
     "%s: f32[1,1,3] = const {0.5, 0.9, 0.2}\n%m: i64[] = const {5}\n%t: f32[] = const {0.5}\n"
     "%l: f32[] = const {0.1}\n%y: i64[3,3], %n: i64[] = nms(%b, %s, %m, %t, %l) {center=0}\n",
     "%y, %n", "i64[3,3]: 0 0 1 0 0 2 -1 -1 -1; i64[]: 2"},
    {"%y: f32[2] = random() {to=f32, dims=[2], kind=\"uniform\", seed=7}\n"
     "%z: f64[2] = random() {to=f64, dims=[2], kind=\"normal\", seed=7}\n",
     "%y, %z", "f32[2]: 0.954597 0.40696; f64[2]: 0.000291469 0.376403"},
    /* BIND, CONTROL */
    {"%x: f32[3] = const {1, 0, 2}\n%n: i64[] = nonzero_count(%x)\nbind(%n) {exprs=[k]}\n"
     "%y: i64[1,k] = nonzero(%x) {k=k}\n",
     "%y", "i64[1,2]: 0 2"},
    {"%c: bool[] = const {1}\nbind(%c) {exprs=[taken]}\n"
     "%a: f32[] = const {1}\n%b: f32[] = neg(%a) when taken\n"
     "%d: f32[] = exp(%a) when eq(taken, 0)\n%y: f32[] = join(%b, %d) {guard=taken}\n",
     "%y", "f32[]: -1"},
    {"%c: bool[] = const {0}\n%x: f32[2] = const {1, 2}\n"
     "%y: f32[2] = if(%c, %x) [\n"
     "block (%p: f32[2]) {\n%q: f32[2] = neg(%p)\n} -> (%q)\n"
     "block (%r: f32[2]) {\n%s: f32[2] = add(%r, %x)\n} -> (%s)\n]\n",
     "%y", "f32[2]: 2 4"},
    {"%n: i64[] = const {4}\n%c: bool[] = const {1}\n%x: i64[] = const {1}\n%two: i64[] = const "
     "{2}\n"
     "%y: i64[], %z: i64[trips] = loop(%n, %c, %x, %two) {symbol=trips, max=10} [\n"
     "block (%i: i64[], %go: bool[], %v: i64[], %t: i64[]) {\n"
     "%w: i64[] = mul(%v, %t)\n%limit: i64[] = const {8}\n%more: bool[] = lt(%w, %limit)\n"
     "} -> (%more, %w, %v)\n]\n",
     "%y, %z", "i64[]: 8; i64[3]: 1 2 4"},
    {"%n: i64[] = const {0}\n%c: bool[] = const {1}\n%x: f32[1] = const {5}\n"
     "%y: f32[1], %z: f32[trips,1] = loop(%n, %c, %x) {symbol=trips, max=10} [\n"
     "block (%i: i64[], %go: bool[], %v: f32[1]) {\n%w: f32[1] = neg(%v)\n"
     "} -> (%go, %w, %v)\n]\n",
     "%y, %z", "f32[1]: 5; f32[0,1]:"},
};
enum { OP_CASES = sizeof op_cases / sizeof *op_cases };

/* The case as a whole text: freed with cv_free. */
static inline char *op_case_text(const op_case *c) {
  return cv_format("graph \"case\" () {\n%s} -> (%s)\n", c->body, c->results);
}

#endif
