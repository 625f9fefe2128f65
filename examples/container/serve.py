"""Answer requests with kernels of a bundle: nothing is compiled, not even for the first.

    curl localhost:8000/700      the softmax of 700 numbers: its sum, and how long it took
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
from kernels import softmax_kernel

import tritium

tritium.load_bundle("kernels.tbundle", missing="error")


class Answer(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self):
        columns = min(int(self.path.strip("/") or 1), 1024)
        x = np.linspace(0, 1, columns, dtype=np.float32)[None]
        out = np.empty_like(x)
        start = time.perf_counter()
        softmax_kernel[(1,)](x, out, columns, BLOCK=1024)
        seconds = time.perf_counter() - start
        self.send_response(200)
        self.end_headers()
        told = {"sum": float(out.sum()), "seconds": seconds, "LLVM": "llvmlite" in sys.modules}
        self.wfile.write(json.dumps(told).encode())


if __name__ == "__main__":
    server = HTTPServer(("", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Answer)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()
