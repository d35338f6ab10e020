//go:build tinygo

package main

// The callbacks for metadata, which nobody needs, are not exported: Envoy calls
// them inside proxy_grpc_stream, and when two streams fail within one callback,
// that has been seen to hang its worker.

//export proxy_on_grpc_receive
func onGrpcReceive(contextID, token, size uint32) {
	thisVM.received(contextID, token, buffer(grpcReceiveBuffer, 0, size))
	acting = unknown
}

//export proxy_on_grpc_close
func onGrpcClose(contextID, token, status uint32) {
	thisVM.closed(contextID, token)
	acting = unknown // it may have been called inside another callback
}
