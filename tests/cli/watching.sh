# Functions for tests of `plimsoll watch`: a machine and runs in the present folder, with fixed process numbers.
export PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so"

# Whether a process runs is read below PLIMSOLL_ROOT.
make_process() {
  mkdir -p "root/proc/$1"
  echo "$1 (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0" >"root/proc/$1/stat"
  printf 'python3\0-u\0%s\0' "$2" >"root/proc/$1/cmdline"
}

make_root() {
  mkdir -p root/proc
  printf 'MemTotal: 65536000 kB\nMemAvailable: 48000000 kB\nSwapTotal: 2097148 kB\nSwapFree: 2000000 kB\n' >root/proc/meminfo
  make_process 4100 /home/me/train.py
  make_process 4101 /home/me/other.py
  make_process 4242 run
  make_process 4243 run
  export PLIMSOLL_ROOT=$PWD/root XDG_STATE_HOME=$PWD/state
}

# make_run NAME PID MEMBERS
make_run() {
  mkdir -p "state/plimsoll/run/$1"
  echo "{\"pid\": $2, \"command\": \"python train.py --lr 1e-4\", $3}" >"state/plimsoll/run/$1/run.json"
}

# steps NAME PID RANK MIB GROWTH: 200 steps, two per second, whose memory grows by so many MiB.
steps() {
  awk -v rank="$3" -v mib="$4" -v growth="$5" 'BEGIN {
    for (i = 0; i < 200; i++) {
      live = mib + growth * i
      printf "{\"t\": %.1f, \"step\": %d, \"rank\": %d, \"phase\": \"training\", \"uuid\": \"GPU-0\", ", 1000 + i / 2, i, rank
      printf "\"allocated\": %.0f, \"reserved\": 17179869184, \"peak_allocated\": %.0f, ", live * 1048576, (live + 2048) * 1048576
      printf "\"free\": 7516192768, \"total\": 25769803776}\n"
    }
  }' >"state/plimsoll/run/$1/$2.live"
}

# Without what changes from run to run: the clock and the user.
undated() {
  sed -E "s/no report for .*/no report for .../; s/\"time\": [0-9.]+/\"time\": .../
    s/\"user\": \"$(id -un)\"/\"user\": \"me\"/; s/^( +[0-9]+  )$(id -un | cut -c1-10) */\1me          /; s/  $(id -un)\$/  me/"
}
