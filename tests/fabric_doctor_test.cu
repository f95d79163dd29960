// SPDX-License-Identifier: MIT-0
//
// How lesson 05's doctor reads files, which no simulated machine shows: fabric_doctor_test, on any machine.
#include <sys/stat.h>
#include <cerrno>
#include <map>

static int fstat_error = 0;
static int maybe_fstat(int fd, struct stat* is) {
  if (!fstat_error) return fstat(fd, is);
  errno = fstat_error;
  return -1;
}
#define fstat maybe_fstat
#define main doctor_main
#include "../05_fabric/fabric_doctor.cu"
#undef main
#undef fstat

#define SHOULD(...) EXPECT(__VA_ARGS__, "line %d", __LINE__)

static std::string temporary;
static std::string file(const std::string& content) {
  std::ofstream(temporary + "/devices") << content;
  return temporary + "/devices";
}
static int major_in(const std::string& content) { return major_of_channels(file(content).c_str()); }
static std::string channels(const std::map<std::string, std::string>& links) {
  const std::string directory = temporary + "/channels";
  SHOULD(std::system(("rm -rf " + directory + " && mkdir " + directory).c_str()) == 0);
  for (const auto& [name, target] : links) SHOULD(symlink(target.c_str(), (directory + "/" + name).c_str()) == 0);
  return directory;
}
static bool has(const std::string& s, const std::string& part) { return s.find(part) != std::string::npos; }
static int next_descriptor() {  // the lowest that is free
  const int fd = dup(0);
  close(fd);
  return fd;
}

static void devices() {
  const std::string before = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n";
  const std::string after = "509 nvidia-nvswitch\n\nBlock devices:\n  7 loop\n";
  SHOULD(major_in(before + "234 nvidia-caps-imex-channels\n" + after) == 234);
  SHOULD(major_in(before + "  9 nvidia-caps-imex-channels\n" + after) == 9);
  SHOULD(major_in(before + "234 nvidia-caps-imex-channels") == 234);  // no newline at the end
  SHOULD(major_in(before + "235 nvidia-caps\n" + after) == -1);
  SHOULD(major_in(before + "235 nvidia-caps-imex-channels2\n" + after) == -1);
  SHOULD(major_in(before + "nvidia-caps-imex-channels 234\n" + after) == -1);
  SHOULD(major_in(before + "x nvidia-caps-imex-channels\n" + after) == -1);
  SHOULD(major_in(before + " nvidia-caps-imex-channels\n" + after) == -1);
  SHOULD(major_in("") == -1);
  SHOULD(major_of_channels((temporary + "/none").c_str()) == -1 && major_of_channels(temporary.c_str()) == -1);
}

static void channel_files() {
  std::string wrong, remedy;
  const auto find = [&](const std::map<std::string, std::string>& links, int driver_major) {
    return find_channel(channels(links), driver_major, &wrong, &remedy);
  };
  const std::string none = temporary + "/none";
  SHOULD(find_channel(none, 1, &wrong, &remedy) == -1 && wrong == "no channel file in " + none);
  SHOULD(has(remedy, "as root: mkdir -p " + none + " && mknod -m 666 " + none + "/channel0 c 1 0 (or load module"));
  SHOULD(find({}, 1) == -1 && has(wrong, "no channel file in "));
  SHOULD(find({{"other", "/dev/null"}}, 1) == -1 && has(wrong, "no channel file in "));
  SHOULD(find({{"channel3", "/dev/null"}}, 1) == 3);  // /dev/null is 1:3
  SHOULD(find({{"channel0", "/nowhere"}, {"channel3", "/dev/null"}}, 1) == 3);
  SHOULD(find({{"channel3", "/dev/null"}}, -1) == -1 && wrong == "/proc/devices lists no nvidia-caps-imex-channels");
  SHOULD(remedy == "load a driver that has IMEX channels");
  SHOULD(find({{"channel3", "/dev/null"}}, 2) == -1);
  SHOULD(has(wrong, "/channel3 is no character device with the major number 2"));
  SHOULD(has(remedy, "remove that file, then mknod -m 666 ") && has(remedy, "/channel0 c 2 0"));
  SHOULD(find({{"channel0", file("plain")}}, 0) == -1 && has(wrong, "/channel0 is no character device"));
  SHOULD(find({{"channel0", "/nowhere"}}, 1) == -1 && has(wrong, "/channel0: No such file or directory"));
  SHOULD(has(remedy, "remove that file, then mknod"));
  fstat_error = EIO;
  SHOULD(find({{"channel3", "/dev/null"}}, 1) == -1 && has(wrong, "/channel3: Input/output error"));
  fstat_error = EPERM;  // as open says where a container's rules forbid the device
  SHOULD(find({{"channel3", "/dev/null"}}, 1) == -1 && has(wrong, "/channel3: Operation not permitted"));
  SHOULD(has(remedy, "docker run --device") && !has(remedy, "mknod"));
  fstat_error = 0;
  const std::string closed = channels({{"channel0", file("closed")}});
  chmod(file("closed").c_str(), 0);
  chmod(temporary.c_str(), 0755);
  struct stat top = {};
  SHOULD(stat("/", &top) == 0);
  if (getuid() == 0 && !(top.st_mode & S_IXOTH)) return;  // nothing is closed to root, and no other user may enter /
  SHOULD(getuid() != 0 || seteuid(65534) == 0);
  SHOULD(find_channel(closed, 1, &wrong, &remedy) == -1 && has(wrong, "/channel0: Permission denied"));
  SHOULD(has(remedy, "a group that this user is in") && !has(remedy, "mknod"));
  SHOULD(getuid() != 0 || seteuid(0) == 0);
}

int main() {
  char directory[] = "/tmp/fabric_doctor_test.XXXXXX";
  temporary = mkdtemp(directory);
  std::atexit([] { SHOULD(std::system(("rm -rf " + temporary).c_str()) == 0); });
  const int free_before = next_descriptor();
  devices();
  channel_files();
  SHOULD(next_descriptor() == free_before);
  std::printf("OK\n");
}
