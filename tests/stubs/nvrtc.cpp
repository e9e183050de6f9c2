// An NVRTC that exports the functions and a version (-DMAJOR=12 -DMINOR=8) but compiles nothing.
// Read next: tests/test_why.py.
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = MAJOR;
  *minor = MINOR;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "a stub compiles nothing"; }
int nvrtcCreateProgram() { return 1; }
int nvrtcDestroyProgram() { return 1; }
int nvrtcAddNameExpression() { return 1; }
int nvrtcCompileProgram() { return 1; }
int nvrtcGetLoweredName() { return 1; }
int nvrtcGetCUBINSize() { return 1; }
int nvrtcGetCUBIN() { return 1; }
int nvrtcGetProgramLogSize() { return 1; }
int nvrtcGetProgramLog() { return 1; }

}  // extern "C"
