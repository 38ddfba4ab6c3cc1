// BullMQ on Redis. LEASE is its lock: the time after which the job of a dead worker comes back. With SAFE=1 a stop waits for the job
// in flight, as its documentation asks for; without, SIGTERM ends Node at once.
const fs = require("node:fs");
const { Queue, Worker } = require("bullmq");

const connection = { path: process.env.REDIS, maxRetriesPerRequest: null };
const lease = 1000 * Number(process.env.LEASE || 30);
const seconds = Number(process.env.JOB_SECONDS || 0.05);
const ledger = fs.openSync(process.env.LEDGER, "a", 0o600);

// One write a line, at the end of the file: workers do not tear each other's lines.
function note(job, step) {
  const worker = process.env.ADIEU_DRILL_WORKER || "none";
  fs.writeSync(ledger, `${job} ${step} ${Date.now() / 1000} ${worker}\n`);
}

async function enqueue(first, last) {
  const queue = new Queue("jobs", { connection });
  for (let job = first; job <= last; job++) {
    await queue.add("job", { job });
  }
  await queue.close();
}

function serve() {
  const work = async ({ data }) => {
    note(data.job, "start");
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    note(data.job, "done");
  };
  const worker = new Worker("jobs", work, { connection, lockDuration: lease, stalledInterval: lease });
  if (process.env.SAFE === "1") {
    process.on("SIGTERM", async () => {
      await worker.close();
      process.exit(0);
    });
  }
}

const [first, last] = process.argv.slice(2);
if (first === "work") serve();
else enqueue(Number(first), Number(last));
