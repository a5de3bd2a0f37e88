/* Names of protobuf-c's types that headers pass by pointer; what they hold is in the generated
 * onnx.pb-c.h, which sources include. */
#ifndef CV_COMPILER_ONNX_MESSAGES_H
#define CV_COMPILER_ONNX_MESSAGES_H

typedef struct Onnx__ModelProto Onnx__ModelProto;
typedef struct Onnx__GraphProto Onnx__GraphProto;
typedef struct Onnx__NodeProto Onnx__NodeProto;
typedef struct Onnx__AttributeProto Onnx__AttributeProto;
typedef struct Onnx__FunctionProto Onnx__FunctionProto;
typedef struct Onnx__OperatorSetIdProto Onnx__OperatorSetIdProto;
typedef struct ProtobufCBinaryData ProtobufCBinaryData;

#endif
